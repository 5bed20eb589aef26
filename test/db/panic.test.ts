/** What the embedded database does where its disk fails it; its subject is SQL. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadConfig } from '../../config.ts';
import { isDatabaseAway, type DatabaseOptions } from '../../db/database.ts';
import { openDatabase } from '../../db/open-database.ts';
import { withNoFilesToOpen, withNothingSynced } from '../support/failing-files.ts';
import { copyEmbeddedTemplate } from '../support/template.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('An embedded database that cannot write what it has to', () => {
  let parent: string;
  // A copy: making a database from nothing takes ten times the CPU.
  beforeEach(async () => {
    parent = await copyEmbeddedTemplate();
  });
  afterEach(() => rmSync(parent, { recursive: true, force: true }));

  const open = (options: DatabaseOptions) => openDatabase(loadConfig({ DROVER_DATA_DIR: parent }), options);

  it('says so once, is away from then on, and has after a new start what was committed', async () => {
    const told: Error[] = [];
    const database = await open({ onBroken: (error) => told.push(error) });
    await database.asOwner((client) => client.query('create table kept as select 42 as answer'));
    // The next file of its log cannot be made, as on a full disk.
    const inTheWay = join(parent, 'pgdata', 'pg_wal', 'xlogtemp.42');
    mkdirSync(inTheWay);
    const write = () =>
      database.asOwner(async (client) => {
        await client.query('insert into kept values (1)');
        await client.query('select pg_switch_wal()');
      });
    const failures: unknown[] = [];
    while (failures.length < 3) await write().catch((error: unknown) => failures.push(error));
    assert.ok(failures.every(isDatabaseAway), failures.join('\n'));
    assert.equal(told.length, 1);
    assert.match(told[0]?.message ?? '', /xlogtemp.*committed is kept/);
    assert.ok(told[0]?.message.includes(parent));
    rmSync(inTheWay, { recursive: true });
    await assert.rejects(database.ping(1000));
    await database.close();

    const again = await open({});
    const { rows } = await again.asOwner((client) => client.query('select answer from kept order by 1 desc limit 1'));
    assert.deepEqual(rows, [{ answer: 42 }]);
    await again.close();
  });

  it('takes nothing for committed where its log cannot be synced, and starts again once it can', async () => {
    const told: Error[] = [];
    const database = await open({ onBroken: (error) => told.push(error) });
    await database.asOwner((client) => client.query('create table kept as select 42 as answer'));
    const write = () => database.asOwner((client) => client.query('insert into kept values (1)'));
    await withNothingSynced(() => assert.rejects(write, isDatabaseAway));
    await assert.rejects(write, isDatabaseAway);
    assert.equal(told.length, 1);
    assert.match(told[0]?.message ?? '', /its log cannot be synced/);
    await database.close();

    const again = await open({});
    const { rows } = await again.asOwner((client) => client.query('select answer from kept order by 1 desc limit 1'));
    assert.deepEqual(rows, [{ answer: 42 }]);
    await again.close();
  });

  it('commits where its process has as many files open as it may', async () => {
    const told: Error[] = [];
    const database = await open({ onBroken: (error) => told.push(error) });
    const run = (text: string) => database.asOwner(async (client) => (await client.query(text)).rows);
    await run('create table kept (n int)');
    // Postgres has the files of the table open from here on.
    await run('insert into kept values (1)');
    await withNoFilesToOpen(() => run('insert into kept values (2)'));
    assert.deepEqual(await run('select n from kept order by n'), [{ n: 1 }, { n: 2 }]);
    assert.deepEqual(told, []);
    await database.close();
  });

  it('writes nothing more once another process has taken over its directory', async () => {
    const told: Error[] = [];
    const database = await open({ onBroken: (error) => told.push(error) });
    writeFileSync(join(parent, 'lock'), JSON.stringify({ token: 'of another' }));
    await waitUntil('it is told', async () => told.length > 0);
    assert.match(told[0]?.message ?? '', /another process, which has taken over the directory/);
    await assert.rejects(
      database.asOwner((client) => client.query('create table late as select 1 as n')),
      isDatabaseAway,
    );
    await database.close();
    assert.ok(existsSync(join(parent, 'lock')), 'the lock is the other process’s');
  });

  it('acknowledges nothing that is begun in the very moment in which it is closed for good', async () => {
    const told: Error[] = [];
    let late: Promise<unknown> | undefined;
    const database = await open({
      onBroken(error) {
        told.push(error);
        late = database.asOwner((client) => client.query('create table late as select 1 as n'));
        late.catch(() => undefined);
      },
    });
    await database.asOwner((client) => client.query('create table kept as select 42 as answer'));
    writeFileSync(join(parent, 'lock'), JSON.stringify({ token: 'of another' }));
    await waitUntil('it is told', () => told.length > 0);
    await assert.rejects(late ?? Promise.resolve(), isDatabaseAway);
    await database.close();
  });

  it('goes on where the file of a table could not grow, and has its next writes', async () => {
    const told: Error[] = [];
    const database = await open({ onBroken: (error) => told.push(error) });
    await database.asOwner((client) => client.query('create table grown as select 1 as n'));
    const full = `do $$ begin raise exception using errcode = '53100', message = 'could not extend file'; end $$`;
    await assert.rejects(
      database.asMaintenance((tx) => tx.query(full)),
      isDatabaseAway,
    );
    await assert.rejects(database.ping(1000), /takes no writes \(disk full\)/);
    await database.asOwner((client) => client.query('insert into grown values (2)'));
    assert.deepEqual(told, []);
    await database.close();
  });
});
