import assert from 'node:assert/strict';
import { serve, type RunningApi } from '../../api/serve.ts';
import { ROUTES } from '../../api/routes.ts';
import type { Tx } from '../../db/database.ts';
import { completeRun } from '../../modules/runs/end-run.ts';
import { createLiveSessions } from '../../modules/sessions/live-sessions.ts';
import { openLiveStore } from '../../modules/sessions/live-store.ts';
import { request } from '../support/api.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { overDatabase } from '../support/over-database.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('A session that is read again and again', function () {
  let platform: TestPlatform;
  let api: RunningApi;
  let session: string;
  /** Of the database, about sessions. */
  const statements: string[] = [];
  /** What happens once the state of a session was read, and before the rest of it is. */
  const meanwhile: (() => Promise<unknown>)[] = [];

  const call = async (method: string, path: string, body?: unknown) => {
    const more = body === undefined ? {} : { body };
    const answer = await request(`${api.url}${path}`, method, { key: platform.apiKey, ...more });
    assert.ok(answer.status < 300, answer.text);
    return answer.json;
  };
  const read = () => call('GET', `/agent/session/${session}`);
  const isServedAlone = async () => {
    statements.length = 0;
    await read();
    return statements.length === 0;
  };

  before(async () => {
    platform = await openTestPlatform(undefined, { workers: true, api: true });
    const { db } = platform.context;
    const noting = (tx: Tx): Tx => ({
      last: (text, values) => tx.last(text, values),
      async query(text, values) {
        if (text.includes('from sessions')) statements.push(text);
        const rows = await tx.query(text, values);
        if (text.includes('as facts')) await meanwhile.shift()?.();
        return rows as never;
      },
    });
    const noted: typeof db = {
      ...db,
      withTenant: (id, work) => db.withTenant(id, (tx) => work(noting(tx))),
      withTenantSnapshot: (id, work) => db.withTenantSnapshot(id, (tx) => work(noting(tx))),
    };
    api = await serve(overDatabase(platform.context, noted), ROUTES, { host: '127.0.0.1', port: 0 });
    const { id: agent_id } = await call('POST', '/v1/agents', { name: 'quiet' });
    session = (await call('POST', '/agent/chat', { message: 'hello', user_id: 'ada', agent_id })).session_id;
    await waitUntil('it is answered', async () => (await read()).status === 'completed');
  });
  after(async () => {
    await api?.close(1000);
    await platform?.close();
  });

  it('is served without the database, as it was answered before', async () => {
    const before = await read();
    await waitUntil('a read asks no database', isServedAlone);
    assert.deepEqual(await read(), before);
  });

  it('is asked about after a second: by its version alone where nothing has changed', async () => {
    await read();
    // Until what follows from the turn is over, its title for one, something has changed.
    await waitUntil('the database is asked one thing', async () => {
      const isAlone = await isServedAlone();
      return !isAlone && statements.length === 1;
    });
  });

  it('shows at once what is written here, and soon what is written elsewhere', async () => {
    await waitUntil('a read asks no database', isServedAlone);
    await call('POST', '/agent/chat', { message: 'more', user_id: 'ada', session_id: session, context: { at: 'sea' } });
    assert.deepEqual((await read()).context, { at: 'sea' });
    await waitUntil('it is answered', async () => (await read()).messages.length === 4);
    const { run_id } = await read();
    await waitUntil('a read asks no database', isServedAlone);
    const { updated_at } = await read();
    await completeRun(platform.context, { tenantId: platform.tenantId, runId: run_id });
    // In other modes the bus takes a moment; without it a second would do.
    await waitUntil('the end of the run is shown', async () => (await read()).updated_at !== updated_at);
  });

  it('keeps a context of 64 KiB, the newest, and refuses a longer one', async () => {
    const longest = { text: 'x'.repeat(65_536 - '{"text":""}'.length) };
    const said = { message: 'hello', user_id: 'ada', session_id: session };
    await call('POST', '/agent/chat', { ...said, context: longest });
    assert.deepEqual((await read()).context, longest);
    for (const session_id of [session, null]) {
      const body = { ...said, session_id, context: { text: `${longest.text}x` } };
      const answer = await request(`${api.url}/agent/chat`, 'POST', { key: platform.apiKey, body });
      assert.equal(answer.status, 400, answer.text);
    }
    await call('POST', '/agent/chat', { ...said, context: { at: 'sea\0' } });
    assert.deepEqual((await read()).context, { at: 'sea\uFFFD' });
    await waitUntil('all is answered', async () => (await read()).status === 'completed');
  });

  it('is shown as it stood at one moment, though something happens while it is read', async function () {
    // The embedded database has one session: nothing happens meanwhile.
    if (DOMAIN_MODE === 'embedded') this.skip();
    const { messages, run_id } = await read();
    const elsewhere = (method: string, path: string, body?: unknown) =>
      request(`${platform.url}${path}`, method, { key: platform.apiKey, ...(body !== undefined && { body }) });
    // Looked at by its run alone, so that nobody keeps how the session stands.
    const say = async (place: string) => {
      const turns = async () => (await elsewhere('GET', `/v1/runs/${run_id}/turns`)).json.turns;
      const before = (await turns()).length;
      const said = { message: place, user_id: 'ada', session_id: session, context: { at: place } };
      await elsewhere('POST', '/agent/chat', said);
      await waitUntil('it is answered', async () => (await turns())[before]?.status === 'complete');
    };
    meanwhile.push(async () => say('hill'));
    await say('lake');
    const shown = async () => {
      const now = await read();
      return [now.context, now.messages.length - messages.length];
    };
    let then = await shown();
    await waitUntil('it is read anew', async () => {
      if (meanwhile.length > 0) then = await shown();
      return meanwhile.length === 0;
    });
    assert.deepEqual(then, [{ at: 'lake' }, 2]);
    // What was read just now is served for a second.
    await waitUntil('the other one is shown', async () => (await read()).context.at === 'hill');
    assert.deepEqual(await shown(), [{ at: 'hill' }, 4]);
  });

  it('shows that its agent or its tenant is suspended, and no more once that is lifted', async () => {
    const { agent_id } = await read();
    const said = { message: 'hello', user_id: 'ada', agent_id };
    await call('PATCH', `/v1/agents/${agent_id}`, { suspended: true });
    const { session_id } = await call('POST', '/agent/chat', said);
    const look = () => call('GET', `/agent/session/${session_id}`);
    const { run_id, status, suspended_by } = await look();
    assert.deepEqual([status, suspended_by], ['planning', 'agent']);
    assert.equal((await call('GET', `/v1/runs/${run_id}`)).suspended_by, 'agent');
    await call('PATCH', `/v1/agents/${agent_id}`, { suspended: false });
    await waitUntil('it is answered', async () => (await look()).status === 'completed');
    assert.ok(!('suspended_by' in (await look())));
    for (const suspended of [true, false]) {
      await call('PATCH', `/v1/tenants/${platform.tenantId}`, { suspended });
      const expected = suspended ? 'tenant' : undefined;
      await waitUntil(`it shows ${expected}`, async () => (await look()).suspended_by === expected);
    }
  });

  it('is nobody else’s, though it lies in the store', async () => {
    await read();
    const settings = { rate_limits: { requests_per_minute: null } };
    const other = await call('POST', '/v1/tenants', { name: 'others', settings });
    const answer = await request(`${api.url}/agent/session/${session}`, 'GET', { key: other.key });
    assert.equal(answer.status, 404);
  });

  it('is read from the database where the store is away', async () => {
    const failures: unknown[] = [];
    const away = {
      redisUrl: 'redis://127.0.0.1:1',
      queuePrefix: 'test',
      onError: (error: unknown) => failures.push(error),
    };
    const store = await openLiveStore(away);
    try {
      const live = createLiveSessions(platform.context, store);
      const caller = { tenantId: platform.tenantId, workspaceId: platform.workspaceId };
      const status = await live.read({ caller, sessionId: session }, (view) => ({ status: view.status }));
      assert.deepEqual(status, { status: 'completed' });
      assert.ok(failures.length > 0);
    } finally {
      await store.close();
    }
  });

  it('is read anew where the store holds something else, whatever has written it', async () => {
    const { context, tenantId, workspaceId } = platform;
    const store = await openLiveStore({ ...context.config, redisUrl: undefined, onError: () => undefined });
    const live = createLiveSessions(context, store);
    const ref = { caller: { tenantId, workspaceId }, sessionId: session };
    const name = `${tenantId}:${workspaceId}:${session}`;
    const status = () => live.read(ref, (view) => ({ status: view.status }));
    await status();
    const kept: { version: string } = JSON.parse((await store.get(name)) ?? '');
    for (const odd of ['no JSON', 'null', '[]', JSON.stringify({ version: kept.version, isAtRest: true, body: 'x' })]) {
      await store.set(name, odd);
      assert.deepEqual(await status(), { status: 'completed' }, odd);
    }
  });

  it('leaves nothing in the store when its thread is erased, nor when its run is', async () => {
    const { config, tenantId, workspaceId } = { ...platform, ...platform.context };
    const name = `${tenantId}:${workspaceId}`;
    const { agent_id } = await read();
    for (const what of ['threads', 'runs']) {
      const said = `canary ${what}`;
      const id = (await call('POST', '/agent/chat', { message: said, user_id: 'ada', agent_id })).session_id;
      const look = () => call('GET', `/agent/session/${id}`);
      await waitUntil('it is answered', async () => (await look()).status === 'completed');
      const { run_id } = await look();
      // The keys of another process that uses the same Redis; without one the store is this process's own.
      const store = await openLiveStore({ ...config, onError: (error) => assert.fail(String(error)) });
      try {
        if (config.redisUrl !== undefined) assert.match((await store.get(`${name}:${id}`)) ?? '', /canary/);
        await call('DELETE', `/v1/${what}/${what === 'runs' ? run_id : id}`);
        assert.equal(await store.get(`${name}:${id}`), undefined);
      } finally {
        await store.close();
      }
    }
  });
});
