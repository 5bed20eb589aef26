import assert from 'node:assert/strict';
import { newId } from '../../../lib/new-id.ts';
import type { Database, Tx } from '../../../db/database.ts';
import { listLostCalls, listLostRuns } from '../../../db/maintenance.ts';
import { forEachIsolated } from '../../../modules/for-each-isolated.ts';
import { maintain } from '../../../modules/platform/maintain.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';

describe('Maintenance', () => {
  let engine: Engine;
  before(async () => {
    engine = await openEngine();
  });
  after(() => engine.close());

  it('lets an approval that cannot be ended keep no other from its end', async () => {
    const agent = await engine.agent({ autonomy_level: 0 }, [{ name: 'pay' }]);
    engine.say((request, n) => (n === 0 ? use({ name: offered(request, 'pay') }) : text('not paid')));
    const { run } = await engine.start(agent, 'pay it');
    assert.equal(await engine.drive(run), 'dormant');
    await engine.tamper(`update approvals set expires_at = now() - interval '1 minute' where run_id = $1`, run);
    // Of a run that is not there; due before the other one.
    await engine.tamper(
      `insert into approvals (id, tenant_id, run_id, turn_id, kind, tool, arguments, digest, status, expires_at, created_at)
       select $2, tenant_id, $3, turn_id, kind, tool, arguments, digest, status, expires_at - interval '1 day', created_at
       from approvals where run_id = $1`,
      run,
      newId(),
      newId(),
    );
    assert.deepEqual(await maintain(engine.context, 'expire-approvals'), { expired: 1 });
    const statuses = await engine.rows<{ status: string }>('select status from approvals order by expires_at');
    assert.deepEqual(
      statuses.map(({ status }) => status),
      ['pending', 'expired'],
    );
  });

  it('begins nothing once its time is over, and leaves that to the next round', async () => {
    const rows = [{ n: 1 }, { n: 2 }, { n: 3 }];
    const work = ({ n }: { n: number }) => {
      const endsAtMs = performance.now() + 20;
      while (performance.now() < endsAtMs);
      return Promise.resolve(n);
    };
    assert.deepEqual(await forEachIsolated(engine.context.log, { rows, withinMs: 10 }, work), [1]);
    assert.deepEqual(await forEachIsolated(engine.context.log, { rows }, work), [1, 2, 3]);
  });

  it('ends where the database is away, which everything needs', async () => {
    const away = Object.assign(new Error('gone'), { code: 'ECONNREFUSED' });
    const rows = [{ n: 1 }, { n: 2 }, { n: 3 }];
    const seen: number[] = [];
    const work = ({ n }: { n: number }) => {
      seen.push(n);
      return n === 2 ? Promise.reject(away) : Promise.resolve(n);
    };
    await assert.rejects(forEachIsolated(engine.context.log, { rows }, work), away);
    assert.deepEqual(seen, [1, 2]);
  });

  describe('beside many waiting runs', () => {
    const WAITING = 5000;

    before(async () => {
      const agent = await engine.agent({ tools: ['ask_user'] });
      engine.say([use({ name: 'ask_user', input: { question: 'Go on?' } })]);
      const { run } = await engine.start(agent, 'ask me');
      assert.equal(await engine.drive(run), 'dormant');
      await engine.tamper(
        `create table copies as select gen_random_uuid() as run, gen_random_uuid() as call from generate_series(1, ${WAITING})`,
      );
      const copy = (table: string, ids: string, key: string) =>
        engine.tamper(
          `insert into ${table} select made.* from copies c, ${table} t,
             jsonb_populate_record(t, jsonb_build_object(${ids})) made where t.${key} = $1`,
          run,
        );
      await copy('runs', `'id', c.run, 'thread_id', c.run, 'lineage', c.run`, 'id');
      await copy('tool_calls', `'id', c.call, 'run_id', c.run`, 'run_id');
      await engine.context.db.asOwner((client) => client.query('drop table copies; analyze runs; analyze tool_calls'));
    });

    const filter = { quietMs: 0, after: '00000000-0000-0000-0000-000000000000', limit: 500, embeds: true };
    for (const [index, list] of Object.entries({ runs_to_drive: listLostRuns, tool_calls_queued: listLostCalls })) {
      it(`reads ${index} to find what was lost, in which none of them is`, async () => {
        const plan = await planOf((db) => list(db, filter));
        // The run whose approval has expired is to be driven.
        assert.match(plan, new RegExp(`Scan using ${index} .*actual rows=[01]\\b`));
        assert.doesNotMatch(plan, /Seq Scan on (runs|tool_calls)/);
      });
    }

    /** Of what is done as maintenance, and how many rows each part of it met. */
    async function planOf(work: (db: Database) => Promise<unknown>): Promise<string> {
      const { db } = engine.context;
      let plan = '';
      const explaining = (tx: Tx): Tx => ({
        async query<R extends object>(sql: string, values?: readonly unknown[]): Promise<R[]> {
          const lines = await tx.query<{ 'QUERY PLAN': string }>(
            `explain (analyze, costs off, timing off, buffers off) ${sql}`,
            values,
          );
          plan += lines.map((line) => line['QUERY PLAN']).join('\n');
          return [];
        },
      });
      await work({ ...db, asMaintenance: (act) => db.asMaintenance((tx) => act(explaining(tx))) });
      return plan;
    }
  });
});
