/** Clients that do not read their answers. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { z } from 'zod';
import { defineRoute } from '../../api/kit/route.ts';
import { serve, type RunningApi } from '../../api/serve.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { waitUntil } from '../support/wait-until.ts';

const MB = 1024 * 1024;
/** More than the buffers of both ends hold. */
const LARGE = 'x'.repeat(9 * MB);
const SMALL = 'x'.repeat(10_000);

interface Answering {
  text?: string;
  method?: 'get' | 'post';
}

describe('Answers that are not read', () => {
  let api: TestApi;
  let theirs: string;
  let server: RunningApi | undefined;
  let [began, late] = [0, 0];
  const opened: Socket[] = [];

  const answering = (path: string, access: 'any-key' | 'open', { text = LARGE, method = 'get' }: Answering = {}) =>
    defineRoute({
      method,
      path,
      access,
      summary: 'Answers',
      responses: { 200: z.strictObject({ text: z.string() }) },
      handle: () => Promise.resolve({ status: 200, body: { text } }),
    });
  const routes = [
    answering('/large', 'any-key'),
    answering('/small', 'any-key', { text: SMALL }),
    answering('/open', 'open'),
    answering('/made', 'any-key', { method: 'post' }),
    defineRoute({
      method: 'get',
      path: '/stream',
      access: 'any-key',
      summary: 'Answers piece by piece',
      responses: { 200: { contentType: 'text/plain', description: 'Pieces' } },
      handle: () => Promise.resolve({ status: 200, body: Readable.from(pieces(), { objectMode: false }) }),
    }),
    defineRoute({
      method: 'get',
      path: '/late',
      access: 'any-key',
      summary: 'Answers once its client has left',
      responses: { 200: z.string() },
      async handle({ ctx }) {
        began += 1;
        await once(ctx.req.socket, 'close');
        late += 1;
        return { status: 200, body: LARGE };
      },
    }),
  ];

  before(async () => {
    api = await startTestApi();
    theirs = (await api.newTenant()).key;
  });
  after(() => api.close());
  beforeEach(() => api.log.splice(0));
  afterEach(async () => {
    for (const client of opened.splice(0)) client.destroy();
    await server?.close(0);
    server = undefined;
  });

  const start = async (limits: { answerBytesAtOnce?: number; stallMs?: number }): Promise<RunningApi> =>
    (server = await serve(api.context, routes, { host: '127.0.0.1', port: 0, ...limits }));
  const send = async (method: string, { url }: RunningApi, { path, key = api.key }: { path: string; key?: string }) => {
    const answer = await fetch(`${url}${path}`, { method, headers: bearing(key) });
    return { status: answer.status, text: await answer.text(), retryAfter: answer.headers.get('retry-after') };
  };
  const get = (at: RunningApi, path: string, key = api.key) => send('GET', at, { path, key });
  const post = (at: RunningApi, path: string, key = api.key) => send('POST', at, { path, key });
  /** A client that has been sent the beginning of an answer, and reads no more. */
  const ask = async ({ port }: RunningApi, path: string, { key = api.key, behind = '' } = {}) => {
    const client = connect(port, '127.0.0.1').on('error', () => undefined);
    opened.push(client);
    client.write(`GET ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n\r\n${behind}`);
    await once(client, 'readable');
    return client;
  };

  it('are cut off once their client takes nothing for some time', async () => {
    const client = await ask(await start({ stallMs: 200 }), '/large');
    await waitUntil('the request is over', () => api.log.some(({ route }) => route === '/large'));
    const closed = once(client, 'close');
    client.resume();
    await closed;
    assert.ok(client.bytesRead < LARGE.length);
  });

  it('are cut off though their client goes on sending', async () => {
    const client = await ask(await start({ stallMs: 400 }), '/large', { behind: 'GET /' });
    const sending = setInterval(() => client.write('x'), 50);
    try {
      await waitUntil('the request is over', () => api.log.some(({ route }) => route === '/large'));
    } finally {
      clearInterval(sending);
    }
  });

  const UPGRADE = ['GET /none HTTP/1.1', 'host: x', 'connection: Upgrade', 'upgrade: websocket', '', ''].join('\r\n');

  it('are cut off with a request for a WebSocket behind them, too', async () => {
    const client = await ask(await start({ stallMs: 200 }), '/large', { behind: UPGRADE });
    await waitUntil('the request is over', () => api.log.some(({ route }) => route === '/large'));
    const closed = once(client, 'close');
    client.resume();
    await closed;
    assert.ok(client.bytesRead < LARGE.length);
  });

  it('go on to a client that reads, piece by piece, with a request for a WebSocket behind them', async () => {
    const client = await ask(await start({}), '/stream', { behind: UPGRADE });
    client.resume();
    await waitUntil('it has all', () => client.bytesRead > LARGE.length);
  });

  it('leave room for those of other tenants, and for small ones', async () => {
    const room = await start({ answerBytesAtOnce: 40 * MB });
    const [first, second] = [await ask(room, '/large'), await ask(room, '/large')];
    const refused = await get(room, '/large');
    assert.deepEqual([refused.status, refused.retryAfter], [503, '2']);
    assert.equal(JSON.parse(refused.text).code, 'unavailable');
    assert.equal((await get(room, '/small')).status, 200);
    assert.equal((await get(room, '/large', theirs)).status, 200);
    first.destroy();
    await waitUntil('there is room again', async () => (await get(room, '/large')).status === 200);
    second.resume();
    await waitUntil('it has all of its answer', () => second.bytesRead > LARGE.length);
  });

  it('make room for one to a request that has had its effect: the oldest is cut off', async () => {
    const room = await start({ answerBytesAtOnce: 40 * MB });
    const [first, second] = [await ask(room, '/large'), await ask(room, '/large')];
    const made = await post(room, '/made');
    assert.deepEqual([made.status, made.retryAfter], [200, null]);
    assert.equal(JSON.parse(made.text).text, LARGE);
    const closed = once(first, 'close');
    for (const client of [first, second]) client.resume();
    await closed;
    assert.ok(first.bytesRead < LARGE.length);
    await waitUntil('the other has all of its answer', () => second.bytesRead > LARGE.length);
  });

  it('make room for one of another tenant where all is full, those of whom holds most', async () => {
    const room = await start({ answerBytesAtOnce: 40 * MB });
    const first = await ask(room, '/large');
    const others = [await ask(room, '/large'), await ask(room, '/large', { key: theirs }), await ask(room, '/open')];
    const { key } = await api.newTenant();
    assert.equal((await get(room, '/large', key)).status, 503);
    assert.equal((await post(room, '/made', key)).status, 200);
    for (const client of [first, ...others]) client.resume();
    await waitUntil('the oldest is cut off', () => first.closed);
    assert.ok(first.bytesRead < LARGE.length);
    await waitUntil('the others have all', () => others.every(({ bytesRead }) => bytesRead > LARGE.length));
  });

  it('to clients that left before them take no room', async () => {
    const room = await start({ answerBytesAtOnce: 40 * MB });
    for (let time = 1; time <= 3; time += 1) {
      const client = connect(room.port, '127.0.0.1').on('error', () => undefined);
      client.write(`GET /late HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${api.key}\r\n\r\n`);
      await waitUntil('it waits', () => began === time);
      client.destroy();
      await waitUntil('its answer is there', () => late === time);
    }
    assert.equal((await get(room, '/large')).status, 200);
  });

  it('to clients without a key leave room for those to tenants', async () => {
    const room = await start({ answerBytesAtOnce: 40 * MB });
    await ask(room, '/open');
    await ask(room, '/open');
    assert.equal((await get(room, '/open')).status, 503);
    assert.equal((await get(room, '/large')).status, 200);
  });

  it('give their room back however they end', async () => {
    const room = await start({ answerBytesAtOnce: 40 * MB, stallMs: 60_000 });
    for (let time = 0; time < 4; time += 1) {
      assert.equal((await get(room, '/large')).text.length > LARGE.length, true);
      const { status } = await fetch(`${room.url}/large`, { method: 'HEAD', headers: bearing(api.key) });
      assert.equal(status, 200);
    }
    const clients = [await ask(room, '/large'), await ask(room, '/large')];
    for (const client of clients) client.destroy();
    await waitUntil('both have left', async () => {
      const both = await Promise.all([get(room, '/large'), get(room, '/large')]);
      return both.every(({ status }) => status === 200);
    });
  });
});

function* pieces() {
  for (let at = 0; at < LARGE.length; at += 64 * 1024) yield LARGE.slice(at, at + 64 * 1024);
}

const bearing = (key: string) => ({ authorization: `Bearer ${key}` });
