import assert from 'node:assert/strict';
import pg from 'pg';
import { isDatabaseAway, type Database, type NamedStatement } from '../../db/database.ts';
import { isStatementTimeout } from '../../db/database-errors.ts';
import { openKnexPool } from '../../db/knex-client.ts';
import { createStatementLine } from '../../db/statement-line.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { cancelStatement, sessionsWaitingIn, terminateSession } from '../support/queries/postgres.ts';
import { MODES } from '../support/modes.ts';
import { waitUntil } from '../support/wait-until.ts';

const LOCK = 4711;
const NOBODY = '00000000-0000-0000-0000-000000000000';
const WHO: NamedStatement = { name: 'who', text: 'select pg_backend_pid() as pid', values: [], inLine: true };
const FAILING: NamedStatement = { name: 'failing', text: 'select 1 / $1::int', values: [0], inLine: true };
const WAITING: NamedStatement = {
  name: 'waiting',
  text: 'select pg_advisory_xact_lock($1), pg_backend_pid() as pid',
  values: [LOCK],
  inLine: true,
};

for (const mode of MODES.filter((each) => each !== 'full')) {
  describe(`statements in line in ${mode} mode`, () => {
    let testDatabase: TestDatabase;
    let database: Database;

    before(async () => {
      testDatabase = await openTestDatabase(mode, { DROVER_POOL_SIZE: '3' }, { checkoutTimeoutMs: 2000 });
      database = testDatabase.database;
    });
    after(() => testDatabase.close());

    const pidOf = async (statement: NamedStatement) => {
      const [row] = await database.call<{ pid: number }>(statement);
      return row?.pid;
    };

    it('go by one connection without waiting for each other, and one that fails hurts none behind it', async () => {
      const ends = await Promise.allSettled([pidOf(WHO), pidOf(FAILING), pidOf(WHO), pidOf(WHO)]);
      assert.deepEqual(
        ends.map(({ status }) => status),
        ['fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
      );
      const pids = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []));
      assert.equal(new Set(pids).size, 1);
    });

    it('let everybody else have a connection, however many come', async () => {
      const state = { isOver: false };
      const driver = async () => {
        while (!state.isOver) await database.call(WHO);
      };
      const drivers = Array.from({ length: 8 }, driver);
      const others = Array.from({ length: 20 }, () => database.asMaintenance((tx) => tx.query('select 1 as one')));
      assert.equal((await Promise.all(others)).length, 20);
      state.isOver = true;
      await Promise.all(drivers);
    });

    if (mode === 'postgres') {
      /** Runs `work` while the lock is held that `WAITING` waits for. */
      const holdingLock = async (work: () => Promise<void>) =>
        database.withTenant(NOBODY, async (tx) => {
          await tx.query('select pg_advisory_xact_lock($1)', [LOCK]);
          await work();
        });

      it('go round one that waits for a lock, by another connection', async () => {
        let waiting: Promise<number | undefined> | undefined;
        const behind: Promise<unknown>[] = [];
        let round: number | undefined;
        await holdingLock(async () => {
          waiting = pidOf(WAITING);
          await waitUntil('a statement is answered', () => {
            behind.push(pidOf(WHO).then((pid) => (round ??= pid)));
            return round !== undefined;
          });
        });
        const held = await waiting;
        assert.equal(typeof held, 'number');
        assert.notEqual(round, held);
        await Promise.all(behind);
      });

      it('are sent again by themselves where the first of their name could not be prepared', async () => {
        const reading = (name: string, table: string): NamedStatement => {
          return { name, text: `select count(*) as rows from ${table} where id = $1`, values: [NOBODY], inLine: true };
        };
        const read = (statement: NamedStatement) => database.call<{ rows: number }>(statement);
        let ends: Promise<PromiseSettledResult<{ rows: number }[]>[]> | undefined;
        await database.asOwner(async (client) => {
          await client.query('begin; lock table agents in access exclusive mode');
          const statement = reading('count agents', 'agents');
          ends = Promise.allSettled([1, 2, 3].map(() => read(statement)));
          let waiting: number[] = [];
          await waitUntil('the first waits to be prepared', async () => {
            waiting = await sessionsWaitingIn(database, 'from agents where id');
            return waiting.length === 1;
          });
          for (const pid of waiting) await cancelStatement(database, pid);
          await client.query('rollback');
        });
        const [first, ...others] = (await ends) ?? [];
        assert.ok(first?.status === 'rejected' && isStatementTimeout(first.reason));
        assert.deepEqual(
          others.map((end) => (end.status === 'fulfilled' ? end.value : end.reason)),
          [[{ rows: 0 }], [{ rows: 0 }]],
        );
        const missing = await Promise.allSettled(
          [1, 2].map(() => read(reading('count nothing', 'nothing_of_the_kind'))),
        );
        assert.deepEqual(
          missing.map((end) => end.status === 'rejected' && (end.reason as { code?: string }).code),
          ['42P01', '42P01'],
        );
      });

      /** A line on a pool of its own, and the end of that. */
      const openLine = (queryTimeoutMs: number) => {
        const connect = async () => {
          const connectionString = testDatabase.config.databaseUrl;
          const client = new pg.Client({ connectionString, query_timeout: queryTimeoutMs, pipeline: true });
          await client.connect();
          return client;
        };
        const pool = openKnexPool({ connect, max: 2, busy: 'busy', checkoutTimeoutMs: 2000 }, ['app']);
        return { send: createStatementLine(pool.as.app), close: () => pool.close() };
      };

      it('are answered where the pool is closed meanwhile, and refused if they come after that', async () => {
        const { send, close } = openLine(5000);
        await send(WHO);
        let ends: Promise<unknown> | undefined;
        let waiting: Promise<{ rows: object[] }> | undefined;
        await holdingLock(async () => {
          const before = send(WHO);
          waiting = send(WAITING);
          // The line has its connection.
          await before;
          ends = close();
          await assert.rejects(send(WHO), { message: 'The database is closed.' });
        });
        assert.equal((await waiting)?.rows.length, 1);
        await ends;
        await assert.rejects(send(WHO), { message: 'The database is closed.' });
      });

      it('are waited for as long as those before them may take, too', async () => {
        const { send, close } = openLine(1500);
        // Longer than one of them may take, all together.
        const text = `select pg_sleep(0.6), pg_backend_pid() as pid`;
        const answers = await Promise.all([1, 2, 3].map(() => send<{ pid: number }>({ text })));
        assert.equal(new Set(answers.map(({ rows }) => rows[0]?.pid)).size, 1);
        await close();
      });

      it('fail together where their connection is lost, and those after them go by another', async () => {
        await holdingLock(async () => {
          const ends = Promise.allSettled([pidOf(WAITING), pidOf(WHO)]);
          let waiting: number[] = [];
          await waitUntil('the first waits', async () => {
            waiting = await sessionsWaitingIn(database, 'pg_advisory_xact_lock');
            return waiting.length === 1;
          });
          for (const pid of waiting) await terminateSession(database, pid);
          const errors = (await ends).map((end) => end.status === 'rejected' && isDatabaseAway(end.reason));
          assert.deepEqual(errors, [true, true]);
          assert.equal(typeof (await pidOf(WHO)), 'number');
        });
      });
    }
  });
}
