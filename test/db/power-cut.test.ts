/** What the embedded database has on the disk when it says that something is done; its subject is SQL. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { loadConfig } from '../../config.ts';
import type { Database } from '../../db/database.ts';
import { openDatabase } from '../../db/open-database.ts';
import { recordDisk, type RecordedDisk } from '../support/power-cut.ts';
import { sized } from '../support/size.ts';
import { copyEmbeddedTemplate } from '../support/template.ts';

const WRITERS = 6;
const ROWS_EACH = 12;
const CUTS = sized({ usual: 3, nightly: 30 });
/** What a start makes anew, so that Postgres never syncs it. */
const REMADE = /(^pg_subtrans\/.*|pg_internal\.init)$/;

describe('A power cut of an embedded database', () => {
  let dataDir: string;
  let database: Database;
  let disk: RecordedDisk;
  beforeEach(async () => {
    dataDir = await copyEmbeddedTemplate();
    disk = recordDisk(join(dataDir, 'pgdata'));
    database = await open();
  });
  afterEach(async () => {
    await database.close();
    disk.end();
    disk.remove();
    rmSync(dataDir, { recursive: true, force: true });
  });

  const open = () => openDatabase(loadConfig({ DROVER_DATA_DIR: dataDir }));
  const run = (text: string) => database.asOwner(async (client) => (await client.query(text)).rows);
  const begin = async () => {
    await run('create table kept (id int primary key, body text); create table counted as select 0 as n');
    return disk.length();
  };
  /** A row and its count in one commit. The body cannot be compressed away: tables and log grow. */
  const add = (id: number) =>
    run(
      `insert into kept select ${id}, string_agg(md5(${id} || ':' || i), '') from generate_series(1, 150) i;
       update counted set n = n + 1`,
    );

  it('takes nothing that was acknowledged, whatever else of its files came through', async () => {
    const begun = await begin();
    const acknowledged: { id: number; at: number }[] = [];
    const write = async (writer: number) => {
      for (let i = 0; i < ROWS_EACH; i++) {
        const id = writer * ROWS_EACH + i;
        await add(id);
        acknowledged.push({ id, at: disk.length() });
        // Writes pages while others wait for the log that tells of them.
        if (writer === 0 && i % 5 === 2) await run('checkpoint');
        // The next file of the log.
        if (writer === 1 && i === ROWS_EACH / 2) await run('select pg_switch_wal()');
      }
    };
    await Promise.all(Array.from({ length: WRITERS }, (_, writer) => write(writer)));
    const length = disk.length();
    const checkpointed = disk.syncsOf('global/pg_control').findLast((at) => at > begun) ?? 0;
    await database.close();
    disk.end();
    const cut = fc.record({
      at: fc.oneof(fc.integer({ min: begun, max: length }), fc.constant(length)),
      share: fc.constantFrom(0, 0.5, 0.9, 1),
      seed: fc.nat(),
    });
    const isThere = async ({ at, share, seed }: { at: number; share: number; seed: number }) => {
      disk.leave(join(dataDir, 'pgdata'), at, (act) => coin(seed, act) < share);
      database = await open();
      const found = await run('select id from kept order by id');
      const ids = new Set(found.map(({ id }) => Number(id)));
      assert.deepEqual(
        acknowledged.filter((row) => row.at <= at && !ids.has(row.id)),
        [],
      );
      assert.deepEqual(await run('select n from counted'), [{ n: ids.size }]);
      await database.close();
    };
    await fc.assert(fc.asyncProperty(cut, isThere), {
      numRuns: CUTS,
      examples: [length, checkpointed].map((at) => [{ at, share: 0, seed: 0 }]),
      endOnFailure: true,
    });
  });

  it('takes nothing once a clean stop has ended', async () => {
    await begin();
    await Promise.all(Array.from({ length: WRITERS }, (_, id) => add(id)));
    await database.close();
    disk.end();
    assert.deepEqual(
      disk.unsynced().filter((file) => !REMADE.test(file)),
      [],
    );
    disk.leave(join(dataDir, 'pgdata'), disk.length(), () => false);
    database = await open();
    assert.deepEqual(await run('select count(*)::int as n from kept'), [{ n: WRITERS }]);
  });
});

/** Of 0 to 1, the same each time. */
function coin(seed: number, act: number): number {
  let mixed = Math.imul(seed ^ (act * 0x9e3779b1), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
}
