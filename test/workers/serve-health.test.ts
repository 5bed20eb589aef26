import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { LIMITS } from '../../core/limits.ts';
import { readinessOf } from '../../modules/platform/readiness-of.ts';
import { serveHealth, type WorkerHealth } from '../../workers/serve-health.ts';
import { startInstallation, type Installation } from '../support/installation.ts';
import { DOMAIN_MODES } from '../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('A worker with a port', () => {
  let platform: TestPlatform;
  let health: WorkerHealth;
  before(async () => {
    platform = await openTestPlatform(undefined, { workers: true });
    health = await serveHealth(platform.context, { host: '127.0.0.1', port: 0 });
  });
  after(async () => {
    await health.close();
    await platform.close();
  });

  const get = (path: string, headers: Record<string, string> = {}) =>
    fetch(`http://127.0.0.1:${health.port}${path}`, { headers });

  it('says that it is alive and ready, with numbers of its own', async () => {
    assert.deepEqual(await (await get('/healthz')).json(), { status: 'ok' });
    const ready = await get('/readyz');
    assert.equal(ready.status, 200);
    assert.deepEqual(await ready.json(), {
      status: 'ready',
      checks: { database: 'ok', queue: 'ok', migrations: 'ok' },
    });
    const numbers = await get('/metrics');
    assert.match(numbers.headers.get('content-type') ?? '', /^text\/plain/);
    assert.match(await numbers.text(), /drover_queue_jobs\{queue="turns"/);
  });

  it('keeps an idle connection for as long as the API does', async () => {
    const { headers } = await get('/healthz');
    assert.equal(headers.get('keep-alive'), `timeout=${LIMITS.idleConnectionSeconds}`);
  });

  it('answers beside more connections than it may have: for a new one the longest idle one is closed', async () => {
    const own = await serveHealth(platform.context, { host: '127.0.0.1', port: 0, connections: 2 });
    const open = () => connect(own.port, '127.0.0.1').on('error', () => undefined);
    const kept = open();
    kept.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n');
    await once(kept, 'data');
    const silent = open();
    await once(silent, 'connect');
    const ends = [kept, silent].map((socket) => once(socket, 'close'));
    for (const end of ends) {
      const answer = await fetch(`http://127.0.0.1:${own.port}/healthz`, { headers: { connection: 'close' } });
      assert.equal(answer.status, 200);
      open();
      await end;
    }
    await own.close();
  });

  it('closes a connection on which more requests wait than may, and answers none of them', async () => {
    const client = connect(health.port, '127.0.0.1').on('error', () => undefined);
    client.resume();
    client.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(LIMITS.pipelinedRequests + 2));
    await once(client, 'close');
    assert.equal(client.bytesRead, 0);
    assert.equal((await get('/healthz')).status, 200);
  });

  it('shows its numbers elsewhere to the operator alone', async () => {
    const elsewhere = { 'x-forwarded-for': '203.0.113.7' };
    assert.equal((await get('/metrics', elsewhere)).status, 401);
    const many = Object.fromEntries(Array.from({ length: 1100 }, (_, n) => [`a${n}`, 'b']));
    assert.equal((await get('/metrics', { ...many, ...elsewhere })).status, 401, 'however many headers come before');
    assert.equal((await get('/metrics', { ...elsewhere, authorization: 'Bearer wrong' })).status, 401);
    const own = { ...elsewhere, authorization: `Bearer ${platform.apiKey}` };
    assert.equal((await get('/metrics', own)).status, 200);
    assert.equal((await get('/healthz', elsewhere)).status, 200);
  });

  it('knows no other path and no other method', async () => {
    assert.equal((await get('/v1/runs')).status, 404);
    const posted = await fetch(`http://127.0.0.1:${health.port}/healthz`, { method: 'POST' });
    assert.equal(posted.status, 405);
  });

  it('answers with the problems of the API', async () => {
    const unknown = await get('/v1/runs?after=1');
    assert.equal(unknown.headers.get('content-type'), 'application/problem+json');
    const { detail, request_id, ...problem } = (await unknown.json()) as Record<string, string>;
    assert.deepEqual(problem, {
      type: 'about:blank',
      title: 'Not Found',
      status: 404,
      instance: '/v1/runs',
      code: 'not-found',
    });
    assert.ok(detail && request_id);
    const refused = await get('/metrics', { 'x-forwarded-for': '203.0.113.7' });
    assert.equal(refused.headers.get('www-authenticate'), 'Bearer realm="drover"');
    assert.equal(((await refused.json()) as { code: string }).code, 'unauthorized');
  });

  it('does not blame the migrations where the database has no connection left to ask for them', async () => {
    const { context } = platform;
    const refusal = Object.assign(new Error('too many connections for role "drover"'), { code: '53300' });
    const db = Object.assign(Object.create(context.db), { inspect: () => Promise.reject(refusal) });
    const detail = 'Not ready: database has no connection left, migrations unknown.';
    await assert.rejects(readinessOf({ ...context, db }, false), { status: 503, message: detail });
  });

  it('is not ready once it stops', async () => {
    health.stopping();
    const answer = await get('/readyz');
    const { status, headers } = answer;
    const { detail, checks } = (await answer.json()) as { detail: string; checks: unknown };
    assert.deepEqual([status, headers.get('retry-after')], [503, '2']);
    assert.equal(detail, 'Not ready: process stopping.');
    assert.deepEqual(checks, { database: 'ok', queue: 'ok', migrations: 'ok' });
    assert.equal((await get('/healthz')).status, 200);
  });
});

for (const mode of DOMAIN_MODES.filter((each) => each !== 'embedded')) {
  describe(`A worker process with DROVER_WORKER_PORT (${mode})`, function suite() {
    let installation: Installation;
    before(async () => {
      installation = await startInstallation(mode, { env: { DROVER_WORKER_PORT: '0' }, workers: ['one'] });
    });
    after(() => installation.close());

    it('serves there from its start to its end', async () => {
      const portOf = () =>
        installation
          .process('one')
          .log()
          .find(({ msg }) => String(msg).startsWith('worker serves'))?.['port'];
      await waitUntil('it serves', () => portOf() !== undefined);
      const url = `http://127.0.0.1:${String(portOf())}`;
      assert.equal((await fetch(`${url}/readyz`)).status, 200);
      assert.match(await (await fetch(`${url}/metrics`)).text(), /drover_turns_total/);
      assert.deepEqual(await installation.end('one', 'SIGTERM'), [0, null]);
      await assert.rejects(fetch(`${url}/healthz`));
    });
  });
}
