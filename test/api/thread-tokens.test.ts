import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { WebSocket } from 'ws';
import { LIMITS } from '../../core/limits.ts';
import { ROUTES } from '../../api/routes.ts';
import { onFilesystem, type Place } from '../support/file-places.ts';
import { issueTestToken } from '../support/issue-token.ts';
import type { Call } from '../support/api.ts';
import { PIXEL } from '../support/pixel.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';

describe('a token for a thread', () => {
  let api: ScriptedService;
  let agent: string;

  let place: Place;

  before(async () => {
    place = await onFilesystem();
    api = await startScriptedService({ env: { DROVER_FILES_URL: place.url } });
    agent = await api.newAgent();
  });
  after(async () => {
    await api.close();
    await place.close();
  });

  const post = (path: string, body: unknown, call: Call = {}) => api.call('POST', path, { ...call, body });
  const statusOf = async (method: string, path: string, call: Call) => (await api.call(method, path, call)).status;
  const mint = (thread: string, scopes: string[], call: Call = {}) =>
    post(`/v1/threads/${thread}/tokens`, { ttl_seconds: 600, scopes }, call);
  const token = async (thread: string, scopes: string[]): Promise<string> => {
    const { status, json, text } = await mint(thread, scopes);
    assert.equal(status, 201, text);
    return json.token;
  };
  const says = (id: string, text: string) => ({ id, messages: [{ role: 'user', parts: [{ type: 'text', text }] }] });
  /** A thread on which something was said, and its run. */
  async function talked(name: string = randomUUID()) {
    const answer = await post(`/v1/agents/${agent}/ui-stream`, says(name, 'say hello'));
    const thread = answer.headers.get('x-drover-thread-id') ?? '';
    const { json } = await api.call('GET', `/v1/runs?thread_id=${thread}`);
    return { thread, run: String(json.runs[0].run_id) };
  }

  it('reads this thread and its runs, and nothing of another', async () => {
    const [{ thread, run }, other] = [await talked(), await talked()];
    const key = await token(thread, ['read']);
    for (const path of ['', '/conversations', '/ui-stream']) {
      assert.equal(await statusOf('GET', `/v1/threads/${thread}${path}`, { key }), 200, path);
      assert.equal(await statusOf('GET', `/v1/threads/${other.thread}${path}`, { key }), 403, path);
    }
    for (const path of ['', '/turns', '/events']) {
      assert.equal(await statusOf('GET', `/v1/runs/${run}${path}`, { key }), 200, path);
      assert.equal(await statusOf('GET', `/v1/runs/${other.run}${path}`, { key }), 403, path);
    }
    assert.equal(await statusOf('GET', `/v1/runs/${randomUUID()}`, { key }), 403);
  });

  it('stands in the query of its stream alone, as `EventSource` has it', async () => {
    const { thread } = await talked();
    const key = await token(thread, ['read']);
    const path = `/v1/threads/${thread}`;
    assert.equal(await statusOf('GET', `${path}/ui-stream?token=${key}`, { key: null }), 200);
    assert.equal(await statusOf('GET', `${path}?token=${key}`, { key: null }), 401);
    assert.equal(await statusOf('GET', `${path}/ui-stream?token=${api.key}`, { key: null }), 401);
    assert.ok(!JSON.stringify(api.log).includes(key), 'the token is in the log');
  });

  it('talks on this thread, by its name before anything was said on it, and on no other', async () => {
    const name = `a page's ${randomUUID()}`;
    const key = await token(encodeURIComponent(name), ['answer']);
    const path = `/v1/agents/${agent}/ui-stream`;
    assert.match((await post(path, says(name, 'say by name'), { key })).text, /"type":"finish"/);
    assert.equal((await post(path, says(randomUUID(), 'say x'), { key })).status, 403);
    const { thread } = await talked();
    assert.equal((await post(path, says(thread, 'say x'), { key })).status, 403);
    const input = { runId: 'r', messages: [{ id: 'm', role: 'user', content: 'say over AG-UI' }] };
    assert.equal((await post(`/ag-ui/${agent}`, { threadId: name, ...input }, { key })).status, 200);
    assert.equal((await post(`/ag-ui/${agent}`, { threadId: thread, ...input }, { key })).status, 403);
    assert.equal((await post('/agent/chat', { message: 'hi', user_id: 'ada', agent_id: agent }, { key })).status, 403);
  });

  it('reads the thread under the name that its front end has for it, as a key does', async () => {
    for (const name of [`page ${randomUUID()}`, randomUUID()]) {
      const path = `/v1/threads/${encodeURIComponent(name)}`;
      assert.equal(await statusOf('GET', path, {}), 404, 'nothing was said yet');
      const { thread } = await talked(name);
      const key = await token(encodeURIComponent(name), ['read']);
      const other = await token((await talked()).thread, ['read']);
      for (const part of ['', '/conversations', '/ui-messages']) {
        assert.equal(await statusOf('GET', `${path}${part}`, { key }), 200, part);
        assert.equal(await statusOf('GET', `${path}${part}`, { key: other }), 403, part);
      }
      const { status, json } = await api.call('GET', path);
      assert.deepEqual([status, json.id], [200, thread]);
      const titled = await api.call('PATCH', path, { body: { title: 'Named' } });
      assert.deepEqual([titled.status, titled.json.id, titled.json.title], [200, thread, 'Named']);
      assert.equal(await statusOf('GET', `/agent/session/${encodeURIComponent(name)}`, { key }), 404);
    }
  });

  it('takes part in its session alone, over a WebSocket too, where it is the subprotocol', async () => {
    const begin = async () =>
      (await post('/agent/chat', { message: 'say hi', user_id: 'ada', agent_id: agent })).json.session_id as string;
    const [session, other] = [await begin(), await begin()];
    const key = await token(session, ['read', 'answer']);
    const message = (session_id: string) => ({ message: 'say more', user_id: 'ada', session_id });
    assert.equal((await post('/agent/chat', message(session), { key })).status, 202);
    assert.equal((await post('/agent/chat', message(other), { key })).status, 403);
    assert.equal((await post('/agent/interrupt', { session_id: other }, { key })).status, 403);
    assert.equal(await statusOf('GET', `/agent/session/${session}`, { key }), 200);
    assert.equal(await statusOf('GET', `/agent/session/${other}`, { key }), 403);
    const opens = (path: string, bearer: string) =>
      new Promise<number>((resolve) => {
        const socket = new WebSocket(`${api.url.replace('http', 'ws')}${path}`, ['drover', `bearer.${bearer}`]);
        socket.once('open', () => (resolve(101), socket.terminate()));
        socket.once('unexpected-response', (_, { statusCode = 0 }) => (resolve(statusCode), socket.terminate()));
        socket.on('error', () => undefined);
      });
    assert.equal(await opens(`/agent/stream/${session}`, key), 101);
    assert.equal(await opens(`/agent/stream/${other}`, key), 403);
    const names = [session, other].map((thread) => [thread, `ext:${randomUUID()}`] as const);
    for (const [thread, name] of names) {
      const body = { external_id: name.slice('ext:'.length) };
      assert.equal((await api.call('PATCH', `/v1/threads/${thread}`, { body })).status, 200);
    }
    for (const [thread, name] of [...names, ['', `ext:${randomUUID()}`] as const]) {
      const isIts = thread === session;
      for (const path of [`/agent/session/${name}`, `/v1/threads/${name}`]) {
        assert.equal(await statusOf('GET', path, { key }), isIts ? 200 : 403, path);
      }
      assert.equal(await opens(`/agent/stream/${name}`, key), isIts ? 101 : 403);
    }
    assert.equal(await opens(`/acp/${agent}`, key), 101);
    assert.equal(await opens(`/acp/${agent}`, await token(session, ['read'])), 403);
  });

  it('does what it is for alone', async () => {
    const { thread, run } = await talked();
    const [reads, answers] = [await token(thread, ['read']), await token(thread, ['answer'])];
    assert.equal((await post(`/v1/agents/${agent}/ui-stream`, says(thread, 'say x'), { key: reads })).status, 403);
    assert.equal(await statusOf('GET', `/v1/threads/${thread}`, { key: answers }), 403);
    assert.equal(await statusOf('GET', `/v1/runs/${run}`, { key: answers }), 403);
  });

  /** A thread with a call whose output is too large to be shown, and with a file that its page has sent; what its stream points to. */
  async function pointing() {
    const name = randomUUID();
    const confirm = await post(`/v1/agents/${agent}/ui-stream`, says(name, 'call confirm {"what":"a"} | say done'));
    const thread = confirm.headers.get('x-drover-thread-id') ?? '';
    const run = String((await api.call('GET', `/v1/runs?thread_id=${thread}`)).json.runs[0].run_id);
    const toolCallId = /"toolCallId":"([^"]+)"/.exec(confirm.text)?.[1] ?? '';
    const part = {
      type: 'tool-confirm',
      toolCallId,
      state: 'output-available',
      output: 'x'.repeat(LIMITS.shownOutputBytes + 1),
    };
    const answers = { id: name, messages: [{ id: 'm', role: 'assistant', parts: [part] }] };
    const answered = await post(`/v1/agents/${agent}/ui-stream`, answers);
    const output = /"output_ref":"([^"]+)"/.exec(answered.text)?.[1] ?? '';
    assert.notEqual(output, '', answered.text.slice(0, 1000));
    const image = { type: 'file', mediaType: 'image/png', filename: 'r.png', url: PIXEL };
    const words = { type: 'text', text: 'say seen' };
    const sent = { id: name, messages: [{ id: 'n', role: 'user', parts: [words, image] }] };
    assert.match((await post(`/v1/agents/${agent}/ui-stream`, sent)).text, /"type":"finish"/);
    const [file] = (await api.call('GET', `/v1/files?thread_id=${thread}`)).json.files;
    return { thread, run, output, file: `/v1/files/${file.id}`, files: `/v1/files?thread_id=${thread}` };
  }

  it('opens what the streams of its thread point to: large outputs and files, of no other thread', async () => {
    const [own, other] = [await pointing(), await pointing()];
    const [reads, answers] = [await token(own.thread, ['read']), await token(own.thread, ['answer'])];
    const open = ({ output, file, files }: typeof own) => [output, file, `${file}/content`, files];
    for (const path of open(own)) {
      assert.equal(await statusOf('GET', path, { key: reads }), 200, path);
      assert.equal(await statusOf('GET', path, { key: answers }), 403, path);
    }
    const { json } = await api.call('GET', own.files, { key: reads });
    assert.deepEqual(
      json.files.map(({ id }: { id: string }) => `/v1/files/${id}`),
      [own.file],
    );
    assert.match((await api.call('GET', own.output, { key: reads })).json.output, /^x+$/);
    const unknown = [`/v1/tool-calls/${randomUUID()}/output`, `/v1/files/${randomUUID()}`, '/v1/files'];
    const beside = [`/v1/files?run_id=${own.run}`, `/v1/files?thread_id=${randomUUID()}`];
    for (const path of [...open(other), ...unknown, ...beside]) {
      assert.equal(await statusOf('GET', path, { key: reads }), 403, path);
    }
    const stranger = await mint('a page', ['read'], { key: (await api.newTenant()).key });
    for (const path of open(own)) assert.equal(await statusOf('GET', path, { key: stranger.json.token }), 403, path);
    assert.equal(await statusOf('DELETE', own.file, { key: await token(own.thread, ['read', 'answer']) }), 403);
    const ofRun = (await post(`/v1/runs/${own.run}/tokens`, { ttl_seconds: 600, scopes: ['read'] })).json.token;
    const outputs = [own.output, other.output, own.file];
    const statuses = outputs.map((path) => statusOf('GET', path, { key: ofRun }));
    assert.deepEqual(await Promise.all(statuses), [200, 403, 403], 'a token for the run');
    const { json: made } = await post('/v1/api-keys', { name: 'k', scopes: ['runs:read'] });
    const target = { kind: 'thread' as const, id: own.thread };
    const ended = await issueTestToken(api.context, { run: own.run, keyId: String(made.id), target, ttlSeconds: 0 });
    for (const path of open(own)) assert.equal(await statusOf('GET', path, { key: ended }), 401, path);
  });

  it('opens a file of no thread where it came to its own, and one of another thread nowhere', async () => {
    const { thread, run } = await talked();
    const other = await talked();
    const key = await token(thread, ['read']);
    const upload = async (of?: string) => {
      const form = new FormData();
      if (of !== undefined) form.set('thread_id', of);
      form.set('file', new Blob(['a text']), 'a.txt');
      const headers = { authorization: `Bearer ${api.key}` };
      const stored = await fetch(`${api.url}/v1/files`, { method: 'POST', headers, body: form });
      assert.equal(stored.status, 201, await stored.clone().text());
      return ((await stored.json()) as { id: string }).id;
    };
    const [free, theirs, unused] = [await upload(), await upload(other.thread), await upload()];
    const attachments = [free, theirs].map((file_id) => ({ file_id }));
    const said = await post(`/v1/runs/${run}/turns`, { input: { message: 'say read', attachments } });
    assert.equal(said.status, 200, said.text);
    const statuses = [free, theirs, unused].map((id) => statusOf('GET', `/v1/files/${id}/content`, { key }));
    assert.deepEqual(await Promise.all(statuses), [200, 403, 403]);
  });

  it('opens no other route', async () => {
    const { thread } = await talked();
    const key = await token(thread, ['read', 'answer']);
    for (const { method, path, access, threadToken, runToken } of ROUTES) {
      if (access === 'open' || access.startsWith('loopback') || threadToken || runToken) continue;
      const url = path.replace(':thread', thread).replaceAll(/:\w+/g, randomUUID());
      const status = await statusOf(method.toUpperCase(), url, { key, ...(method === 'get' ? {} : { body: {} }) });
      assert.equal(status, 403, `${method} ${path}`);
    }
    const { json } = await api.call('DELETE', `/agent/session/${thread}`, { key });
    assert.equal(json.detail, 'A token for a thread does not open this; a key may.');
  });

  it("is for the thread that a client's own id stands for, once something was said on it", async () => {
    const name = randomUUID();
    assert.equal((await mint(name, ['read'])).status, 404);
    const { thread } = await talked(name);
    assert.notEqual(thread, name);
    const key = await token(name, ['read']);
    assert.equal(await statusOf('GET', `/v1/threads/${thread}`, { key }), 200);
    assert.equal(await statusOf('GET', `/v1/threads/${name}/ui-stream`, { key }), 200);
    assert.equal((await mint(name, ['read'], { key: (await api.newTenant()).key })).status, 404);
  });

  it("cannot do what the key that makes it cannot, and is for no other tenant's thread", async () => {
    const { thread } = await talked();
    const { json: reader } = await post('/v1/api-keys', { name: 'k', scopes: ['runs:read'] });
    assert.equal((await mint(thread, ['read'], { key: reader.key })).status, 201);
    assert.equal((await mint(thread, ['answer'], { key: reader.key })).status, 403);
    assert.equal((await mint(randomUUID(), ['read'])).status, 404);
    const stranger = await api.newTenant();
    assert.equal((await mint(thread, ['read'], { key: stranger.key })).status, 404);
    assert.equal((await post(`/v1/threads/${thread}/tokens`, { ttl_seconds: 3601, scopes: ['read'] })).status, 400);
  });

  it('is worth nothing once it has expired, been changed, or its key been revoked', async () => {
    const [{ thread, run }, other] = [await talked(), await talked()];
    const { json: made } = await post('/v1/api-keys', { name: 'k', scopes: ['runs:read'] });
    const { json: minted } = await mint(thread, ['read'], { key: made.key });
    const given = String(minted.token);
    const read = (key: string, of = thread) => statusOf('GET', `/v1/threads/${of}`, { key });
    assert.equal(await read(given), 200);
    assert.equal(await read(given.replace(thread, other.thread), other.thread), 401);
    assert.equal(await read(`${given.slice(0, -6)}AAAAAA`), 401);
    const asRun = given.replace('dtt_', 'drt_').replace(thread, run);
    assert.equal(await statusOf('GET', `/v1/runs/${run}`, { key: asRun }), 401);
    const target = { kind: 'thread' as const, id: thread };
    const ended = await issueTestToken(api.context, { run, keyId: String(made.id), target, ttlSeconds: 0 });
    assert.equal(await read(ended), 401);
    await api.call('DELETE', `/v1/api-keys/${made.id}`);
    assert.equal(await read(given), 401);
  });

  it('is made once for one Idempotency-Key, whatever the thread is called by', async () => {
    const { thread } = await talked();
    const external = randomUUID();
    await api.call('PATCH', `/v1/threads/${thread}`, { body: { external_id: external } });
    const body = { ttl_seconds: 600, scopes: ['read'] };
    const headers = { 'idempotency-key': randomUUID() };
    const made = await api.call('POST', `/v1/threads/${thread}/tokens`, { body, headers });
    const again = await api.call('POST', `/v1/threads/ext:${external}/tokens`, { body, headers });
    assert.deepEqual([made.status, again.status, again.json], [201, 201, { expires_at: made.json.expires_at }]);
  });

  it('is named in the audit log, and never itself', async () => {
    const { thread } = await talked();
    const given = await token(thread, ['read']);
    const { json, text } = await api.call('GET', '/v1/audit?action=thread_token.created');
    const entry = json.audit.find(({ target }: { target: { id: string } }) => target.id === thread);
    assert.deepEqual(entry?.details.scopes, ['read'], text.slice(0, 300));
    assert.ok(!text.includes(given));
  });
});
