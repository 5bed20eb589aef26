import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { loadConfig } from '../../config.ts';
import { DatabaseRoleError } from '../../db/database-errors.ts';
import { openDatabase } from '../../db/open-database.ts';
import { TURNS } from '../../jobs/turns.ts';
import { newId } from '../../lib/new-id.ts';
import { readinessOf } from '../../modules/platform/readiness-of.ts';
import { handleJob } from '../../workers/handle-job.ts';
import { handler as turns } from '../../workers/handlers/turns.ts';
import { createTestServices, type TestServices } from '../support/database.ts';
import { offered, openEngine, text, use, type Engine } from '../support/engine.ts';
import { MODES } from '../support/modes.ts';
import { HAS_PGBOUNCER, startPgBouncer, type PgBouncer } from '../support/pgbouncer.ts';
import { openTestPlatform } from '../support/platform.ts';
import { query } from '../support/template.ts';
import { waitUntil } from '../support/wait-until.ts';
import { openServiceProxy } from '../../scripts/kit/service-proxy.ts';
import { notify } from '../support/queries/postgres.ts';

const CONNECTIONS = 2;
const why = MODES.includes('postgres') ? 'this machine has no pgbouncer' : 'it needs TEST_DATABASE_URL';

describe('An application pool behind PgBouncer in transaction mode', function () {
  if (!HAS_PGBOUNCER || !MODES.includes('postgres')) {
    it(`is left out: ${why}`, function () {
      this.skip();
    });
    return;
  }

  let services: TestServices;
  let url: string;
  let bouncer: PgBouncer;
  let engine: Engine;
  before(async () => {
    services = await createTestServices('postgres');
    url = services.url ?? '';
    bouncer = await startPgBouncer(url, CONNECTIONS);
    engine = await openEngine('postgres', { DATABASE_URL: url, DATABASE_POOL_URL: bouncer.url });
  });
  after(async () => {
    await engine?.close();
    await bouncer?.close();
    await services?.drop();
  });

  it('serves again soon after Postgres has come back', async () => {
    const proxy = await openServiceProxy(url);
    const own = await startPgBouncer(proxy.url, 1);
    const isServed = () =>
      query(own.url, 'select 1').then(
        () => true,
        () => false,
      );
    try {
      await proxy.cut();
      let attempts = 0;
      const ending = createServer((socket) => {
        attempts += 1;
        socket.destroy();
      }).listen(Number(new URL(proxy.url).port), '127.0.0.1');
      const first = isServed();
      await waitUntil('a login has failed', () => attempts > 0);
      ending.close();
      await once(ending, 'close');
      await proxy.restore();
      const sinceMs = performance.now();
      await waitUntil('it serves', async () => (await first) || isServed());
      const tookMs = performance.now() - sinceMs;
      assert.ok(tookMs < 10_000, `${tookMs} ms`);
    } finally {
      await proxy.restore();
      await own.close();
      await proxy.close();
    }
  });

  it('is named where nothing answers at its address: in what lacks, and in one line of the log for all jobs that meet with that', async () => {
    const own = await startPgBouncer(url, CONNECTIONS);
    const kept = { ...services, drop: async () => undefined };
    const platform = await openTestPlatform('postgres', { services: kept, env: { DATABASE_POOL_URL: own.url } });
    const { context, log } = platform;
    await readinessOf(context, false);
    await own.close();
    await assert.rejects(readinessOf(context, false), /^DroverError: Not ready: database away \(DATABASE_POOL_URL\), /);
    const queue = context.queues.queue(TURNS.name);
    const ids = Array.from({ length: 10 }, () => newId());
    const jobs = ids.map((runId) => ({ name: TURNS.name, data: { tenantId: platform.tenantId, runId, seq: 1 } }));
    await queue.addBulk(jobs);
    const duty = { stop: new AbortController().signal, draining: () => false };
    const worker = context.queues.worker(TURNS.name, (job, token) =>
      handleJob(context, turns, { ...duty, job, token }),
    );
    await waitUntil('all have failed', async () => (await queue.getJobCountByTypes('failed')) === ids.length);
    await worker.close();
    const told = log.filter(({ msg }) => !/connection lost/.test(String(msg)));
    assert.deepEqual(
      told.map(({ level, msg }) => [level, msg]),
      [[40, 'nothing answers at the address of DATABASE_POOL_URL; work waits for the database']],
    );
    await platform.close();
  });

  const logins = async () => {
    const { rows } = await query(
      url,
      `select usename, count(*)::int from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() group by 1`,
    );
    return Object.fromEntries(rows.map(({ usename, count }) => [usename, count])) as Record<string, number>;
  };

  it('drives more runs at a time than it has connections, with calls and their answers', async () => {
    const agent = await engine.agent({}, [{ name: 'look' }]);
    engine.say((request) =>
      JSON.stringify(request.messages.at(-1)?.content).includes('tool_result')
        ? text('done')
        : use({ name: offered(request, 'look') }),
    );
    const runs = await Promise.all(Array.from({ length: 12 }, () => engine.start(agent, 'Look.')));
    await Promise.all(runs.map(({ run }) => engine.finish(run)));
    for (const { run } of runs) {
      const types = (await engine.log(run)).map(({ type }) => type);
      assert.equal(types.at(-1), 'turn.completed');
    }
    assert.equal(engine.tools.seen.length, runs.length, 'each call was made once');
    const sessions = await logins();
    assert.ok((sessions[bouncer.login] ?? 0) > 0);
    assert.ok((sessions[bouncer.login] ?? 0) <= CONNECTIONS);
  });

  it('is not waited for where its login is wrong, and is told apart from the other one', async () => {
    for (const right of [url, bouncer.url]) {
      const wrong = new URL(right);
      wrong.password = 'wrong';
      const opened = openDatabase(
        loadConfig({ DATABASE_URL: url, DATABASE_POOL_URL: wrong.href, DROVER_SECRET_KEY: 'none' }),
      );
      await assert.rejects(
        opened,
        (error) => error instanceof DatabaseRoleError && error.message.startsWith('DATABASE_POOL_URL leads to'),
      );
    }
  });

  it('is refused where it leads to another database, whoever may log in there', async () => {
    const other = await createTestServices('postgres');
    const ends = (pool: string) => {
      const poolUrl = new URL(pool);
      poolUrl.pathname = new URL(other.url ?? '').pathname;
      return openDatabase(
        loadConfig({ DATABASE_URL: url, DATABASE_POOL_URL: poolUrl.href, DROVER_SECRET_KEY: 'none' }),
      );
    };
    try {
      for (const pool of [bouncer.url, url]) {
        await assert.rejects(ends(pool), {
          name: 'ConfigError',
          message:
            'DATABASE_POOL_URL leads to another database than DATABASE_URL: expected the same one, behind a pooler.',
        });
      }
    } finally {
      await query(url, `select pg_terminate_backend(pid) from pg_stat_activity where usename = '${bouncer.login}'`);
      await other.drop();
    }
  });

  it('is proved to be the same database where DATABASE_URL is of no superuser', async () => {
    const owner = `owner_${newId().replaceAll('-', '')}`;
    await query(url, `create role ${owner} login password 'owner' in role drover_app, drover_maintenance`);
    const direct = new URL(url);
    [direct.username, direct.password] = [owner, 'owner'];
    try {
      const database = await openDatabase(
        loadConfig({ DATABASE_URL: direct.href, DATABASE_POOL_URL: bouncer.url, DROVER_SECRET_KEY: 'none' }),
      );
      await database.close();
    } finally {
      await query(url, `drop role ${owner}`);
    }
  });

  it('shows each tenant its rows and nobody else any, whoever had the connection before', async () => {
    const { db } = engine.context;
    const count = (tenant: string) =>
      db.withTenant(tenant, async (tx) => {
        const [row] = await tx.query<{ runs: number; tenant: string }>(
          `select count(*) as runs, current_setting('drover.tenant_id') as tenant from runs`,
        );
        return row;
      });
    const strangers = Array.from({ length: 20 }, () => newId());
    const asked = strangers.flatMap((stranger) => [stranger, engine.tenantId]);
    const answers = await Promise.all(asked.map(count));
    assert.deepEqual(
      answers.map((answer) => [answer?.tenant, answer?.runs]),
      asked.map((tenant) => [tenant, tenant === engine.tenantId ? 12 : 0]),
    );
    const [bare] = await db.call<{ runs: number }>({
      name: 'bare',
      text: 'select count(*) as runs from runs',
      values: [],
    });
    assert.equal(bare?.runs, 0);
  });

  it('goes on after statements that fail, one of them in a transaction that had sent more', async () => {
    const { db } = engine.context;
    const failing = () => db.withTenant(engine.tenantId, (tx) => tx.query('select 1 / 0'));
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? failing() : db.ping(5000))),
    );
    assert.deepEqual(
      results.map(({ status }) => status),
      Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? 'rejected' : 'fulfilled')),
    );
  });

  it('listens and does maintenance on connections of its own', async () => {
    const heard: string[] = [];
    const { db } = engine.context;
    const stop = await db.listen(
      'a_channel',
      (payload) => heard.push(payload),
      () => undefined,
    );
    await notify(db, 'a_channel', 'through the pool');
    const [row] = await db.asMaintenance((tx) => tx.query<{ user: string }>('select current_user as user'));
    assert.equal(row?.user, 'drover_maintenance');
    await stop();
  });

  it('is refused with a login that may do more, or is nobody, or lacks what sessions need, or takes no writes', async () => {
    const open = (databasePoolUrl: string) =>
      openDatabase({ databaseUrl: url, databasePoolUrl, dataDir: '', poolSize: 2 });
    const refused = (pool: string, expected: RegExp) =>
      assert.rejects(open(pool), (error) => {
        assert.ok(error instanceof DatabaseRoleError);
        assert.match(error.message, expected);
        return true;
      });
    await refused(url, /may do more than drover_app/);
    const direct = new URL(url);
    direct.username = bouncer.login;
    direct.password = new URL(bouncer.url).password;
    await query(url, `alter role ${bouncer.login} set default_transaction_read_only = on`);
    await refused(direct.href, /take no writes.*: ALTER ROLE drover_pool_\w+ RESET default_transaction_read_only;/);
    await query(url, `alter role ${bouncer.login} reset default_transaction_read_only`);
    await query(url, `alter role ${bouncer.login} reset statement_timeout`);
    await refused(direct.href, /ALTER ROLE drover_pool_\w+ SET statement_timeout/);
    await query(url, `revoke drover_app from ${bouncer.login}`);
    await refused(direct.href, /GRANT drover_app TO drover_pool_/);
    const named = `Drover.${bouncer.login}`;
    await query(url, `alter role ${bouncer.login} rename to "${named}"`);
    direct.username = named;
    await refused(direct.href, /GRANT drover_app TO "Drover\.drover_pool_/);
    await query(url, `alter role "${named}" rename to ${bouncer.login}`);
  });
});
