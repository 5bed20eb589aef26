import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { migrate } from '../../../db/migrate.ts';
import { lineOfDatabaseWork } from '../../../modules/platform/run-once.ts';
import { createTestServices } from '../../support/database.ts';
import { startServer } from '../../support/echo-server.ts';
import { DOMAIN_MODE, TEST_DATABASE_URL } from '../../support/modes.ts';
import { programOf, unbundledOf } from '../../support/processes.ts';
import { ROOT } from '../../support/repository.ts';
import { waitUntil } from '../../support/wait-until.ts';

/** A process, with nothing in its environment but this. */
async function startMain(file: string, env: Record<string, string>, program?: readonly string[]) {
  const child = spawn(process.execPath, program ?? (await programOf(file)), {
    env: { PATH: '/usr/bin:/bin', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { out: '', err: '' };
  child.stdout.on('data', (chunk: Buffer) => (output.out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output.err += chunk.toString()));
  return { child, output, exited: once(child, 'close') };
}

const toUrl = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`;

/** For `--import`: the process gets SIGTERM as soon as it begins to load the module that all of them load. */
function terminatedAtLoading(module: string): string {
  const hook = `export const load = (url, context, next) => {
    if (url.endsWith(${JSON.stringify(module)})) process.kill(process.pid, 'SIGTERM');
    return next(url, context);
  };`;
  return toUrl(`import { register } from 'node:module'; register(${JSON.stringify(toUrl(hook))});`);
}

/** Of a database that is away. */
const NO_DATABASE = {
  DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
  DROVER_SECRET_KEY: 'the tests have no secrets',
};

const { scripts } = JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8')) as {
  scripts: Record<string, string>;
};
/** The programs of the Procfile, the command line, and what `npm run` starts with tsx. */
const ENTRIES = [
  'api/main.ts',
  'workers/main.ts',
  ...new Set(Object.values(scripts).flatMap((line) => /\btsx .*?(scripts\/\S+\.ts)$/.exec(line)?.[1] ?? [])),
];

describe('the life of a process', () => {
  for (const file of ['scripts/start.ts', 'api/main.ts', 'workers/main.ts']) {
    it(`ends with 0 at SIGTERM while it still loads its code: ${file}`, async () => {
      const program = ['--import', terminatedAtLoading('/config.js'), ...(await unbundledOf(file))];
      const { output, exited } = await startMain(file, { DROVER_DATA_DIR: '/nowhere' }, program);
      assert.deepEqual([await exited, output], [[0, null], { out: '', err: '' }]);
    });
  }

  for (const file of ENTRIES) {
    it(`ends with one line on a Node that is too old, before it loads its code: ${file}`, async () => {
      const versions = `{ value: { ...process.versions, node: '20.19.4' } }`;
      const old = toUrl(`Object.defineProperty(process, 'versions', ${versions});`);
      const { output, exited } = await startMain(file, {}, ['--import', old, ...(await programOf(file))]);
      assert.deepEqual(await exited, [1, null]);
      assert.deepEqual(output, { out: '', err: 'Drover needs Node 20.20 or later; this is 20.19.4.\n' });
    });
  }

  for (const file of ['scripts/rebuild-projections.ts', 'scripts/reencrypt-secrets.ts']) {
    it(`begins nothing where there is none, and ends with one line: ${file}`, async () => {
      const folder = mkdtempSync(join(tmpdir(), 'drover-test-none-'));
      const dataDir = join(folder, 'data');
      const { output, exited } = await startMain(file, { DROVER_DATA_DIR: dataDir });
      assert.deepEqual(await exited, [1, null]);
      assert.match(output.err, /^DROVER_DATA_DIR is [^\n]+ Drover was never started there\.\n$/);
      assert.deepEqual([output.out, readdirSync(folder)], ['', []]);
      rmSync(folder, { recursive: true });
    });
  }

  it('ends with 0 at SIGTERM while it still waits for its database', async () => {
    const { child, output, exited } = await startMain('workers/main.ts', NO_DATABASE);
    try {
      await waitUntil('it waits', () => /waiting for it/.test(output.out) || child.exitCode !== null);
      child.kill('SIGTERM');
      assert.deepEqual([await exited, output.err], [[0, null], '']);
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('ends with 1 and one line before anything begins where it cannot serve', async () => {
    const taken = await startServer((_request, response) => response.end());
    const services = await createTestServices('embedded');
    const programs: [string, Record<string, string>][] = [
      ['scripts/start.ts', services.env],
      ['api/main.ts', NO_DATABASE],
    ];
    for (const [file, settings] of programs) {
      const { child, output, exited } = await startMain(file, { ...settings, PORT: String(taken.port) });
      try {
        assert.deepEqual(await exited, [1, null]);
        assert.match(output.err, /^Port \d+ of 127\.0\.0\.1 is taken[^\n]*EADDRINUSE[^\n]*PORT[^\n]*\n$/);
        assert.equal(output.out, '', 'nothing has begun');
      } finally {
        child.kill('SIGKILL');
      }
    }
    await taken.close();
    await services.drop();
  });

  it('names the variable where it cannot listen on an address', async () => {
    const services = await createTestServices('embedded');
    // Of TEST-NET-1, which no machine has.
    const { child, output, exited } = await startMain('scripts/start.ts', { ...services.env, HOST: '192.0.2.1' });
    try {
      assert.deepEqual(await exited, [1, null]);
      assert.match(output.err, /^HOST is 192\.0\.2\.1, which is no address of this machine[^\n]*\n$/);
      assert.equal(output.out, '');
    } finally {
      child.kill('SIGKILL');
      await services.drop();
    }
  });

  it('ends with 1 and one line where the embedded database cannot go on', async () => {
    const services = await createTestServices('embedded');
    const { child, output, exited } = await startMain('scripts/start.ts', { ...services.env, PORT: '0' });
    try {
      await waitUntil('it is up', () => /Try it/.test(output.err) || child.exitCode !== null);
      mkdirSync(join(services.env['DROVER_DATA_DIR'] ?? '', 'pgdata', 'pg_wal', 'xlogtemp.42'));
      const [, url = '', key = ''] = /curl -s (\S+) -H "Authorization: (\S+ \S+)"/.exec(output.err) ?? [];
      const body = () => JSON.stringify({ input: { message: randomBytes(2_000_000).toString('hex') } });
      const headers = () => ({ authorization: key, 'content-type': 'application/json' });
      while (child.exitCode === null) {
        await fetch(url, { method: 'POST', headers: headers(), body: body() }).catch(() => undefined);
      }
      assert.deepEqual(await exited, [1, null]);
      assert.match(output.err, /^The database is closed: in [^\n]+xlogtemp[^\n]+\n$/m);
      assert.doesNotMatch(output.out, /closing failed/);
    } finally {
      child.kill('SIGKILL');
      await services.drop();
    }
  });

  it('says which variable leads to a Postgres that refuses it', async function () {
    if (TEST_DATABASE_URL === undefined) return void this.skip();
    const [wrong, none, tls, bare] = [0, 1, 2, 3].map(() => new URL(TEST_DATABASE_URL ?? ''));
    assert.ok(wrong && none && tls && bare);
    wrong.username = 'nobody_of_this_name';
    none.pathname = '/no_database_of_this_name';
    tls.searchParams.set('sslmode', 'verify-full');
    for (const { href: DATABASE_URL } of [wrong, none, tls]) {
      const env = { DATABASE_URL, DROVER_SECRET_KEY: 'the tests have no secrets' };
      const { output, exited } = await startMain('workers/main.ts', env);
      assert.deepEqual(await exited, [1, null]);
      const line = /^DATABASE_URL leads to a Postgres that refuses it: [^\n]*(of_this_name|SSL)[^\n]*\.\n$/;
      assert.match(output.err, line);
    }
    bare.password = '';
    const { output, exited } = await startMain('scripts/migrate.ts', { ...NO_DATABASE, DATABASE_URL: bare.href });
    assert.deepEqual(await exited, [1, null]);
    assert.match(output.err, /^The Postgres of DATABASE_URL,[^\n]* asks for a password, and the URL has none\.\n$/);
  }).timeout(30_000);

  it('says which variable leads to no Postgres, for programs that do not wait for one', async () => {
    for (const [host, code] of Object.entries({ '127.0.0.1:1': 'ECONNREFUSED', 'none.invalid': 'E[A-Z_]+' })) {
      const away = { databaseUrl: `postgres://a:hidden@${host}/x`, dataDir: 'memory:' };
      const error: unknown = await migrate(away).catch((failure: unknown) => failure);
      const line = `^No Postgres answers at DATABASE_URL,[^\n]+ \\([^\n]*${code}[^\n]*\\): expected [^\n]+\\.$`;
      assert.match(lineOfDatabaseWork(error), new RegExp(line));
      assert.doesNotMatch(lineOfDatabaseWork(error), /hidden/);
    }
    assert.equal(lineOfDatabaseWork(new Error('away')), 'away');
  });

  it('says which variable leads to a Redis that refuses it', async function () {
    if (DOMAIN_MODE !== 'full') return void this.skip();
    const services = await createTestServices('full');
    const [wrong, none, beyond] = [0, 1, 2].map(() => new URL(services.env['REDIS_URL'] ?? ''));
    assert.ok(wrong && none && beyond);
    wrong.password = 'hidden-password';
    [none.username, none.password] = ['', ''];
    beyond.pathname = '/99999';
    for (const { href: REDIS_URL } of [wrong, none, beyond]) {
      const { output, exited } = await startMain('workers/main.ts', { ...services.env, REDIS_URL });
      assert.deepEqual(await exited, [1, null]);
      assert.match(output.err, /^REDIS_URL leads to a Redis that refuses it: [A-Z]+ [^\n]*\.\n$/);
      assert.ok(!(output.err + output.out).includes('hidden-password'));
    }
    await services.drop();
  });

  it('warns of a variable that nothing reads, by its name, and of a key that can be guessed, and says that it stops', async () => {
    const services = await createTestServices(DOMAIN_MODE);
    const env = {
      ...services.env,
      PORT: '0',
      DROVER_QUEUE_PREFX: 'misspelt',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4317',
      OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
      OTEL_METRICS_EXPORTER: 'otlp',
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=c4nary',
      DROVER_SECRET_KEY: 'short',
      DROVER_API_KEY: 'x',
    };
    const { child, output, exited } = await startMain('scripts/start.ts', env);
    await waitUntil('it is up', () => /is up/.test(output.err) || child.exitCode !== null);
    child.kill('SIGTERM');
    assert.deepEqual(await exited, [0, null]);
    assert.match(output.out, /"variable":"DROVER_QUEUE_PREFX"/);
    for (const variable of ['OTEL_EXPORTER_OTLP_PROTOCOL', 'OTEL_METRICS_EXPORTER'])
      assert.equal(output.out.split(`"variable":"${variable}","reason":"`).length, 2, variable);
    assert.ok(!output.out.includes('c4nary'));
    for (const variable of ['DROVER_SECRET_KEY', 'DROVER_API_KEY'])
      assert.match(output.out, new RegExp(`"variable":"${variable}","msg":"a key of less than 16 characters`));
    assert.match(output.out, /"msg":"api and workers stopping".*"ms":\d+,"msg":"api and workers stopped"/s);
    await services.drop();
  });
});
