/** Requests that a client sends without waiting for the answers to earlier ones. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { z } from 'zod';
import { defineRoute } from '../../api/kit/route.ts';
import { serve } from '../../api/serve.ts';
import { LIMITS } from '../../core/limits.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('Pipelined requests', () => {
  let api: TestApi;
  let started: number;
  let open: () => void;
  let isOpen: Promise<void>;
  const opened: Socket[] = [];

  /** Answers once the test lets it. */
  const held = defineRoute({
    method: 'get',
    path: '/held',
    access: 'open',
    summary: 'Waits',
    responses: { 200: z.string() },
    async handle() {
      started += 1;
      await isOpen;
      return { status: 200, body: 'done\n' };
    },
  });
  const echo = defineRoute({
    method: 'post',
    path: '/echo',
    access: 'open',
    summary: 'Says what it has read',
    body: z.strictObject({ word: z.string() }),
    responses: { 200: z.strictObject({}) },
    handle: ({ body }) => Promise.resolve({ status: 200, body }),
  });
  const socket = defineRoute({
    method: 'get',
    path: '/socket',
    access: 'any-key',
    summary: 'Becomes a WebSocket that is closed at once',
    responses: { 101: 'empty' },
    handle({ app, ctx, caller }) {
      started += 1;
      app.sockets?.open(ctx.req, caller, (own) => own.socket.close(4000));
      ctx.respond = false;
      return Promise.resolve({ status: 101 });
    },
  });

  const routes = [held, echo, socket];

  before(async () => {
    api = await startTestApi(DOMAIN_MODE, { routes });
  });
  after(() => api.close());
  beforeEach(() => {
    started = 0;
    api.log.splice(0);
    isOpen = new Promise((resolve) => {
      open = resolve;
    });
  });
  afterEach(() => {
    open();
    for (const client of opened.splice(0)) client.destroy();
  });

  /** A client, and all that it has been told. */
  const dial = async ({ port } = new URL(api.url)) => {
    const client = connect(Number(port), '127.0.0.1').on('error', () => undefined);
    opened.push(client);
    let text = '';
    client.on('data', (chunk) => (text += String(chunk)));
    await once(client, 'connect');
    return {
      client,
      told: () => text,
      statuses: () => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, code]) => code),
    };
  };
  const get = (path: string, ...headers: string[]) =>
    [`GET ${path} HTTP/1.1`, 'host: x', ...headers, '', ''].join('\r\n');
  const isFirst = () => waitUntil('the first has begun', () => started > 0);

  it('are served one after the other', async () => {
    const { client, statuses } = await dial();
    client.write(get('/held').repeat(3) + get('/none'));
    await isFirst();
    assert.equal((await fetch(`${api.url}/none`)).status, 404);
    assert.equal(started, 1);
    open();
    await waitUntil('all are answered', () => statuses().length === 4);
    assert.deepEqual(statuses(), ['200', '200', '200', '404']);
  });

  it('leave other connections their turn between two of them', async () => {
    const [many, other] = [await dial(), await dial()];
    open();
    let before = 0;
    other.client.once('data', () => (before = started));
    many.client.write(get('/held').repeat(LIMITS.pipelinedRequests));
    other.client.write(get('/none'));
    await waitUntil('all are answered', () => many.statuses().length === LIMITS.pipelinedRequests);
    assert.ok(before > 0 && before < LIMITS.pipelinedRequests / 2, `${before} were served before the other one`);
  });

  it('close their connection where too many wait, and none of those is served', async () => {
    const { client, told } = await dial();
    const closed = once(client, 'close');
    client.write(get('/held').repeat(LIMITS.pipelinedRequests + 2));
    await closed;
    open();
    await waitUntil('the first is over', () => api.log.some(({ msg }) => msg === 'request'));
    assert.equal((await fetch(`${api.url}/none`)).status, 404);
    assert.deepEqual([told(), started], ['', 1]);
  });

  it('are not served after the one at which their client has left', async () => {
    const { client } = await dial();
    client.write(get('/held').repeat(3));
    await isFirst();
    client.destroy();
    await waitUntil('it has left', () => api.log.some(({ disconnected }) => disconnected === true));
    open();
    assert.equal((await fetch(`${api.url}/none`)).status, 404);
    assert.equal(started, 1);
  });

  it('may ask for a WebSocket, which opens after the earlier answers', async () => {
    const { client, statuses } = await dial();
    const upgrade = ['connection: Upgrade', 'upgrade: websocket', 'sec-websocket-version: 13'];
    const key = ['sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==', `authorization: Bearer ${api.key}`];
    client.write(get('/held') + get('/socket', ...upgrade, ...key));
    await isFirst();
    open();
    await waitUntil('both are answered', () => statuses().length === 2);
    assert.deepEqual(statuses(), ['200', '101']);
  });

  it('may ask for another protocol, and are answered in theirs after the earlier ones', async () => {
    const { client, statuses } = await dial();
    client.write(get('/held') + get('/none', 'connection: Upgrade', 'upgrade: h2c'));
    await isFirst();
    open();
    await waitUntil('both are answered', () => statuses().length === 2);
    client.write(get('/held'));
    await waitUntil('so is another one', () => statuses().length === 3);
    assert.deepEqual(statuses(), ['200', '404', '200']);
  });

  it('outlive a client that breaks off while its WebSocket waits for earlier answers', async () => {
    const { client } = await dial();
    client.write(get('/held') + get('/socket', 'connection: Upgrade', 'upgrade: websocket'));
    await isFirst();
    client.resetAndDestroy();
    open();
    await waitUntil('the first is over', () => api.log.some(({ msg }) => msg === 'request'));
    assert.equal((await fetch(`${api.url}/none`)).status, 404);
    assert.equal(started, 1);
  });

  for (const [what, first] of [
    ['a request that is to be the last', get('/held', 'connection: close')],
    ['a request of HTTP/1.0', get('/held').replace('HTTP/1.1', 'HTTP/1.0')],
  ] as const) {
    it(`are ignored behind ${what}, which is answered`, async () => {
      const { client, told, statuses } = await dial();
      const closed = once(client, 'close');
      client.write(first + get('/held').repeat(2));
      await isFirst();
      assert.equal((await fetch(`${api.url}/none`)).status, 404);
      open();
      await closed;
      assert.deepEqual([statuses(), started], [['200'], 1]);
      assert.match(told(), /\r\n\r\ndone\n$/);
    });
  }

  it('are answered also where something follows that is no request, and are the last on their connection', async () => {
    const { client, statuses } = await dial();
    const closed = once(client, 'close');
    client.write(`${get('/held').repeat(2)}no HTTP at all\r\n\r\n`);
    await isFirst();
    client.write(get('/held'));
    assert.equal((await fetch(`${api.url}/none`)).status, 404);
    open();
    await closed;
    assert.deepEqual([statuses(), started], [['200', '200', '400'], 2]);
  });

  it('are answered before one whose body breaks off, which is 400', async () => {
    const { client, statuses } = await dial();
    const closed = once(client, 'close');
    const headers = ['content-type: application/json', 'transfer-encoding: chunked'];
    client.write(`${get('/held')}${get('/echo', ...headers).replace('GET', 'POST')}no length\r\n`);
    await isFirst();
    assert.equal((await fetch(`${api.url}/none`)).status, 404);
    open();
    await closed;
    assert.deepEqual(statuses(), ['200', '400']);
  });

  it('may wait with their body until they are told to go on', async () => {
    const { client, told, statuses } = await dial();
    const body = JSON.stringify({ word: 'later' });
    const headers = ['expect: 100-continue', 'content-type: application/json', `content-length: ${body.length}`];
    client.write(get('/held') + get('/echo', ...headers).replace('GET', 'POST'));
    await isFirst();
    open();
    await waitUntil('it is told to go on', () => statuses().includes('100'));
    client.write(body);
    await waitUntil('all are answered', () => told().includes('later'));
    assert.deepEqual(statuses(), ['200', '100', '200']);
  });

  it('do not keep a server from its stop: the next one is the last on its connection', async () => {
    const server = await serve(api.context, routes, { host: '127.0.0.1', port: 0 });
    const { client, told, statuses } = await dial(new URL(server.url));
    client.write(get('/held').repeat(3));
    await isFirst();
    const closed = server.close(60_000);
    open();
    await closed;
    await waitUntil('the connection is closed', () => client.closed);
    assert.deepEqual(statuses(), ['200', '200']);
    assert.match(told(), /connection: close/i);
  });
});
