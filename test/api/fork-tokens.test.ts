/** What a page may open with a token for the thread of a fork: all that its turns show, and nothing beyond. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { UIMessage } from 'ai';
import { LIMITS } from '../../core/limits.ts';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { onFilesystem, type Place } from '../support/file-places.ts';
import { ODD_SERVER } from '../support/odd-server.ts';
import { PIXEL } from '../support/pixel.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

interface Talk {
  run: string;
  thread: string;
}

describe('a token for the thread of a fork', () => {
  let api: ScriptedService;
  let store: Place;
  let large: LocalServer;
  let agent: string;

  before(async () => {
    store = await onFilesystem();
    const text = JSON.stringify({ text: 'x'.repeat(LIMITS.shownOutputBytes + 1) });
    large = await startServer((_, response) => response.setHeader('content-type', 'application/json').end(text));
    api = await startScriptedService({ env: { DROVER_FILES_URL: store.url, DROVER_EGRESS_ALLOW: '127.0.0.1' } });
    const tool = { description: 'A tool of the test.', risk_level: 'READ_ONLY' };
    await post('/v1/tools', { ...tool, name: 'large', transport: { type: 'http', endpoint: large.url } });
    await post('/v1/tools', { ...tool, name: 'image', transport: { type: 'mcp_stdio', ...ODD_SERVER } });
    const execution_config = { checkpoint_frequency: 'on_change' };
    agent = await api.newAgent(['calculator', 'large', 'image'], { autonomy_level: 3, execution_config });
  });
  after(async () => {
    await api.close();
    await large.close();
    await store.close();
  });

  const post = async (path: string, body: unknown, key = api.key) => {
    const { status, json, text } = await api.call('POST', path, { body, key });
    assert.ok(status < 300, `${path}: ${text}`);
    return json;
  };
  const get = async (path: string, key = api.key) => {
    const { status, json, text } = await api.call('GET', path, { key });
    assert.equal(status, 200, `${path}: ${text}`);
    return json;
  };
  const statusesOf = (paths: readonly string[], key: string) =>
    Promise.all(paths.map(async (path) => (await api.call('GET', path, { key })).status));
  const rests = (run: string) =>
    waitUntil('its turn ends', async () => {
      const { status, waiting_for } = await get(`/v1/runs/${run}`);
      return ['completed', 'failed', 'cancelled'].includes(status) || waiting_for?.type === 'turn';
    });
  const picture = (message: string) => {
    const source = { type: 'base64', media_type: 'image/png', data: PIXEL.replace(/^.*,/, '') };
    return { message, attachments: [{ type: 'image', source }] };
  };
  const say = (run: string, input: object) => post(`/v1/runs/${run}/turns`, { input });
  /** A run that stays open, with a turn for each of these. */
  async function talk(inputs: readonly object[]): Promise<Talk> {
    const { run_id: run, thread_id: thread } = await post(`/v1/agents/${agent}/runs`, {});
    for (const input of inputs) await say(run, input);
    return { run, thread };
  }
  const checkpoints = async (run: string): Promise<string[]> =>
    (await get(`/v1/runs/${run}/checkpoints`)).checkpoints.toReversed().map(({ id }: { id: string }) => id);
  async function fork(run: string, checkpoint: string | undefined): Promise<Talk & { key: string }> {
    const body = { checkpoint_id: checkpoint, config: { keep_open: true } };
    const { run_id, thread_id } = await post(`/v1/runs/${run}/replay`, body);
    await rests(run_id);
    return { run: run_id, thread: thread_id, key: await token(thread_id, ['read']) };
  }
  const token = async (thread: string, scopes: string[]): Promise<string> =>
    (await post(`/v1/threads/${thread}/tokens`, { ttl_seconds: 600, scopes })).token;
  const pathOf = (id: string) => `/v1/files/${id}/content`;
  const picturesOf = async (thread: string): Promise<string[]> =>
    ((await get(`/v1/threads/${thread}/ui-messages`)).messages as UIMessage[]).flatMap(({ parts }) =>
      parts.flatMap((part) => (part.type === 'file' ? part.url : [])),
    );
  const filesOf = async (thread: string, key: string, limit = 50) => {
    const paths: string[] = [];
    for (let query = `&limit=${limit}`; ;) {
      const { files, next_cursor: next } = await get(`/v1/files?thread_id=${thread}${query}`, key);
      paths.push(...files.map(({ id }: { id: string }) => pathOf(id)));
      if (next === undefined) return paths;
      query = `&limit=${limit}&cursor=${next}`;
    }
  };
  const outputsOf = async (thread: string, key: string): Promise<string[]> => {
    const said = JSON.stringify(await get(`/v1/threads/${thread}/conversations`, key));
    return [...new Set(said.match(/\/v1\/tool-calls\/[\w-]+\/output/g))];
  };

  it('opens and lists the pictures of all turns that it shows, also of one that was open at the point, and no other', async () => {
    const first = await talk([
      { message: 'say one' },
      picture('call calculator {"expression":"6*7"} | say two'),
      picture('say three'),
    ]);
    const all = await picturesOf(first.thread);
    assert.equal(all.length, 2);
    for (const point of ['start', ...(await checkpoints(first.run))]) {
      const { run, thread, key } = await fork(first.run, point);
      const shown = await picturesOf(thread);
      assert.deepEqual(
        await statusesOf(shown, key),
        shown.map(() => 200),
        `of ${shown.length}, at ${point}`,
      );
      const others = all.filter((path) => !shown.includes(path));
      assert.deepEqual(
        await statusesOf(others, key),
        others.map(() => 403),
      );
      assert.deepEqual(await filesOf(thread, key), shown.toReversed());
      const [last = 'start'] = await checkpoints(run);
      const next = await fork(run, last);
      assert.deepEqual(await filesOf(next.thread, next.key, 1), (await picturesOf(next.thread)).toReversed());
      const again = await fork(run, 'start');
      const kept = await picturesOf(again.thread);
      assert.deepEqual([kept, await filesOf(again.thread, again.key)], [shown, shown.toReversed()]);
      assert.deepEqual(
        await statusesOf(kept, again.key),
        kept.map(() => 200),
      );
    }
  });

  it('opens a file of no thread that came with a turn that the fork asks again', async () => {
    const form = new FormData();
    form.set('file', new Blob(['a text']), 'a.txt');
    const headers = { authorization: `Bearer ${api.key}` };
    const stored = await fetch(`${api.url}/v1/files`, { method: 'POST', headers, body: form });
    const { id } = (await stored.json()) as { id: string };
    const first = await talk([{ message: 'say one' }, { message: 'say two', attachments: [{ file_id: id }] }]);
    const { thread, key } = await fork(first.run, (await checkpoints(first.run))[0]);
    assert.deepEqual(await statusesOf(await picturesOf(thread), key), [200]);
    assert.deepEqual(await filesOf(thread, key), [], 'it is not in the list');
  });

  it('opens and lists what a tool had made in the beginning of a turn that is its own, and nothing made later', async () => {
    const made = 'call image {"bytes":60000} | ';
    const first = await talk([{ message: 'say one' }, { message: `${made}${made}say two` }]);
    const [later, earlier] = await filesOf(first.thread, api.key);
    assert.ok(later !== undefined && earlier !== undefined);
    const points = await checkpoints(first.run);
    const lists: number[] = [];
    for (const point of points) {
      const { run, thread, key } = await fork(first.run, point);
      const listed = await filesOf(thread, key);
      assert.deepEqual(
        await statusesOf(listed, key),
        listed.map(() => 200),
      );
      const said: string = JSON.stringify((await get(`/v1/threads/${thread}/conversations`)).conversations);
      const shown: string[] = [later, earlier].filter((path) => said.includes(path.split('/')[3] ?? ''));
      assert.deepEqual(
        listed.filter((path) => path === later || path === earlier),
        shown,
        `at ${point}`,
      );
      const isOpen: number[] = [later, earlier].map((path) => (shown.includes(path) ? 200 : 403));
      assert.deepEqual(await statusesOf([later, earlier], key), isOpen);
      lists.push(shown.length);
      const again = await fork(run, 'start');
      assert.deepEqual(
        await statusesOf(shown, again.key),
        shown.map(() => 200),
        'a fork of the fork',
      );
    }
    assert.deepEqual(new Set(lists), new Set([0, 1, 2]));
  });

  it('opens no file of a later turn of the other thread, even where it is attached to a turn of the fork', async () => {
    const first = await talk([{ message: 'say one' }]);
    const { run, thread, key } = await fork(first.run, (await checkpoints(first.run)).at(-1));
    await say(first.run, picture('say two'));
    const [later = ''] = await picturesOf(first.thread);
    await say(run, { message: 'say more', attachments: [{ file_id: later.split('/')[3] }] });
    assert.deepEqual([await picturesOf(thread), await statusesOf([later], key)], [[later], [403]]);
    assert.deepEqual(await filesOf(thread, key), []);
  });

  it('opens the large outputs that its turns show, and none of a later turn', async () => {
    const call = { message: 'call large {} | say done' };
    const first = await talk([{ message: 'say one' }, call, call]);
    const all = await outputsOf(first.thread, api.key);
    assert.equal(all.length, 2);
    const counts: number[] = [];
    for (const point of ['start', ...(await checkpoints(first.run))]) {
      const { run, thread, key } = await fork(first.run, point);
      const shown = await outputsOf(thread, key);
      assert.deepEqual(
        await statusesOf(shown, key),
        shown.map(() => 200),
        `at ${point}`,
      );
      const others = all.filter((path) => !shown.includes(path));
      assert.deepEqual(
        await statusesOf(others, key),
        others.map(() => 403),
        `at ${point}`,
      );
      const again = await fork(run, (await checkpoints(run)).at(-1) ?? 'start');
      assert.deepEqual(
        await statusesOf(await outputsOf(again.thread, again.key), again.key),
        shown.map(() => 200),
      );
      counts.push(others.length);
    }
    assert.deepEqual(new Set(counts), new Set([0, 1, 2]));
    const stranger = await token((await talk([{ message: 'say other' }])).thread, ['read']);
    assert.deepEqual(await statusesOf(all, stranger), [403, 403]);
    const { key } = await fork(first.run, (await checkpoints(first.run)).at(-1));
    const others = [`/v1/runs/${first.run}`, `/v1/runs/${first.run}/turns`, `/v1/runs/${first.run}/events`];
    others.push(`/v1/threads/${first.thread}`, `/v1/tool-calls/${randomUUID()}/output`);
    assert.deepEqual(
      await statusesOf(others, key),
      others.map(() => 403),
    );
  });
});
