/** What runs lock of their tables' partitions: locks and partitions are the subject, and their statements stay in view. */
import assert from 'node:assert/strict';
import type { ClientBase } from 'pg';
import type { Tx } from '../../../db/database.ts';
import { maintain } from '../../../modules/platform/maintain.ts';
import { offered, openEngine, text, use, type Engine } from '../../support/engine.ts';
import { MODES } from '../../support/modes.ts';
import { row } from '../../support/queries/access.ts';
import { statusOfRun } from '../../support/queries/runs.ts';

const DEFAULTS = 'run_log_default, messages_default, checkpoints_default';
const PARENTS = 'run_log, messages, checkpoints';

// What PGlite has is one session: nobody waits for another one's locks there.
if (MODES.includes('postgres')) {
  describe('Runs on partitioned tables', () => {
    let engine: Engine;

    beforeEach(async () => {
      engine = await openEngine('postgres');
      await maintain(engine.context, 'make-partitions');
      engine.say((request, n) =>
        n % 2 === 0 ? use({ name: offered(request, 'look'), input: { n } }) : text('that is all'),
      );
    });
    afterEach(() => engine.close());

    /** A run with a call, each step of which a process claims that knows nothing of it yet. */
    const runAnew = async () => {
      const agent = await engine.agent({}, [{ name: 'look' }]);
      const { run } = await engine.start(agent, 'look there');
      assert.equal(await engine.drive(run), 'yielded');
      await engine.makeCalls(run);
      engine.context.runCache.clear();
      assert.equal(await engine.drive(run), 'dormant');
      return run;
    };
    const read = <T>(work: (tx: Tx) => Promise<T>) => engine.context.db.withTenant(engine.tenantId, work);
    const statusOf = (run: string) => statusOfRun(engine, run);

    /** Holds locks as another session does while `work` goes on. */
    const beside = (locks: string, work: (other: ClientBase) => Promise<void>) =>
      engine.context.db.asOwner(async (client) => {
        await client.query(`begin; lock table ${locks}`);
        try {
          await work(client);
        } finally {
          await client.query('rollback');
        }
      });

    it('are created and driven while somebody waits for the default partitions, or has them', async () => {
      await beside(`${DEFAULTS} in access exclusive mode`, async () => {
        const run = await runAnew();
        assert.equal(await statusOf(run), 'completed');
      });
    });

    it('go on beside a dump, for whose end maintenance waits with what it has to attach', async () => {
      const last = await lastPartition(engine);
      await engine.context.db.asOwner((client) => client.query(`drop table ${last}`));
      await beside(`${PARENTS} in access share mode`, async () => {
        const [made, run] = await Promise.all([maintain(engine.context, 'make-partitions'), runAnew()]);
        assert.deepEqual(made, { made: 0, delayed: 1, astray: 0 });
        assert.equal(await statusOf(run), 'completed');
      });
      assert.deepEqual(await maintain(engine.context, 'make-partitions'), { made: 1, delayed: 0, astray: 0 });
      assert.equal(await lastPartition(engine), last);
    });

    it('lock their own partitions alone, however many there are', async () => {
      const run = await runAnew();
      await engine.context.db.asOwner((client) =>
        client.query(`select attach_partition(p, d::date) from unnest(array['run_log', 'messages', 'checkpoints']) p,
          generate_series('2023-01-01', '2024-12-01', interval '1 month') d`),
      );
      const locked = await read(async (tx) => {
        const claim = { tenant_id: engine.tenantId, run_id: run, seq: 0, claim: false, before_checkpoint: 1 };
        const [claimed] = await tx.query<{ answer: { events: unknown[]; messages: unknown[] } }>(
          'select claim_run($1) as answer',
          [JSON.stringify(claim)],
        );
        assert.ok(claimed && claimed.answer.messages.length > 0);
        return tx.query<{ name: string }>(
          `select distinct relation::regclass::text as name from pg_locks l join pg_inherits i on i.inhrelid = l.relation
           where l.pid = pg_backend_pid() order by 1`,
        );
      });
      const tables = locked.map(({ name }) => name).filter((name) => !name.endsWith('_pkey'));
      assert.equal(tables.length, 3, tables.join());
      assert.ok(locked.length <= 6);
    });
  });
}

async function lastPartition(engine: Engine): Promise<string> {
  const { name } = await row<{ name: string }>(
    engine,
    `select inhrelid::regclass::text as name from pg_inherits
       where inhparent = 'run_log'::regclass order by inhrelid::regclass::text collate "C" desc limit 1`,
  );
  return name;
}
