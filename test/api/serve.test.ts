import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { WebSocket } from 'ws';
import { z } from 'zod';
import { defineRoute } from '../../api/kit/route.ts';
import { serve, type RunningApi } from '../../api/serve.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { startTestApi } from '../support/api.ts';
import type { TestApi } from '../support/api.ts';
import { waitUntil } from '../support/wait-until.ts';

/** Routes that the test holds in its hand. */
function routesOf(gate: { open: () => void; started: number; ended: number; stuck: Promise<void> }) {
  const slow = defineRoute({
    method: 'get',
    path: '/slow',
    access: 'open',
    summary: 'Waits',
    responses: { 200: z.string() },
    async handle() {
      gate.started += 1;
      await gate.stuck;
      return { status: 200, body: 'done' };
    },
  });
  const stream = defineRoute({
    method: 'get',
    path: '/stream',
    access: 'open',
    summary: 'Never ends by itself',
    responses: { 200: { contentType: 'text/event-stream', description: 'Pings' } },
    handle: ({ app }) => {
      async function* pings() {
        gate.started += 1;
        try {
          yield ': ping\n\n';
          await new Promise((resolve) => {
            app.closing.addEventListener('abort', resolve);
          });
        } finally {
          gate.ended += 1;
        }
      }
      return Promise.resolve({
        status: 200,
        body: Readable.from(pings()),
        headers: { 'content-type': 'text/event-stream' },
      });
    },
  });
  const echo = defineRoute({
    method: 'post',
    path: '/echo',
    access: 'open',
    summary: 'Says what it has read',
    body: z.strictObject({}),
    responses: { 200: z.strictObject({}) },
    handle: ({ body }) => Promise.resolve({ status: 200, body }),
  });
  const broken = defineRoute({
    method: 'get',
    path: '/broken',
    access: 'open',
    summary: 'Fails',
    responses: { 200: z.string() },
    handle: () => Promise.reject(new Error('select hunter2 from secrets')),
  });
  return [slow, stream, broken, echo];
}

function newGate() {
  let open = (): void => undefined;
  const stuck = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, stuck, started: 0, ended: 0 };
}

describe('the server', () => {
  const start = async () => {
    const gate = newGate();
    return { gate, api: await startTestApi(DOMAIN_MODE, { routes: routesOf(gate) }) };
  };

  it('that stops lets open requests end, ends streams, and takes no new ones', async () => {
    const { gate, api } = await start();
    const open = fetch(`${api.url}/slow`);
    const stream = await fetch(`${api.url}/stream`);
    assert.equal(stream.headers.get('content-type'), 'text/event-stream');
    await waitUntil('both are open', () => gate.started === 2);
    const closing = api.close();
    assert.equal(await stream.text(), ': ping\n\n');
    await assert.rejects(fetch(`${api.url}/healthz`), 'a new connection must be refused');
    gate.open();
    assert.equal(await (await open).text(), 'done');
    await closing;
  });

  it('keeps an idle connection for longer than a load balancer does, and stops at once with such connections', async () => {
    const { api } = await start();
    const server = await serve(api.context, routesOf(newGate()), { host: '127.0.0.1', port: 0 });
    const silent = connect(server.port, '127.0.0.1');
    await once(silent, 'connect');
    const kept = connect(server.port, '127.0.0.1');
    kept.write('GET /none HTTP/1.1\r\nhost: x\r\n\r\n');
    const [head] = (await once(kept, 'data')) as [Buffer];
    const [, seconds] = /^keep-alive: timeout=(\d+)\r$/im.exec(String(head)) ?? [];
    // Google's keeps them for 600 s, the longest of those that are common.
    assert.ok(Number(seconds) > 600, `${seconds} s`);
    const ends = Promise.all([once(silent, 'close'), once(kept, 'close')]);
    await server.close(3_600_000);
    await ends;
    await api.close();
  });

  it('answers beside more silent connections than it may have, and closes one too many without an answer', async () => {
    const { gate, api } = await start();
    const server = await serve(api.context, routesOf(gate), { host: '127.0.0.1', port: 0, connections: 3 });
    const open = () => connect(server.port, '127.0.0.1').on('error', () => undefined);
    const silent: Socket[] = [];
    for (let i = 0; i < 3; i++) {
      const socket = open();
      await once(socket, 'connect');
      silent.push(socket);
    }
    const closed = silent.map((socket) => once(socket, 'close'));
    for (let i = 0; i < 3; i++) {
      open().write('GET /slow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
      await waitUntil('it has the request', () => gate.started === i + 1);
      await closed[i];
    }
    const refused = open();
    refused.resume();
    await once(refused, 'close');
    assert.equal(refused.bytesRead, 0);
    assert.equal(gate.started, 3);
    gate.open();
    await waitUntil('there is room again', () =>
      fetch(`${server.url}/echo`).then(
        ({ status }) => status === 405,
        () => false,
      ),
    );
    await server.close(0);
    await api.close();
  });

  it('closes for a new connection the one on which no request has been open for longest, and none that has one', async () => {
    const { gate, api } = await start();
    const server = await serve(api.context, routesOf(gate), { host: '127.0.0.1', port: 0, connections: 4 });
    const open = () => connect(server.port, '127.0.0.1').on('error', () => undefined);
    const ask = async (socket: Socket) => {
      socket.write('GET /echo HTTP/1.1\r\nhost: x\r\n\r\n');
      assert.match(String((await once(socket, 'data'))[0]), /^HTTP\/1\.1 405 /);
    };
    const [first, second, half, slow] = [open(), open(), open(), open()];
    half.write('GET /echo HTTP/1.1\r\nho');
    await ask(first);
    await ask(second);
    slow.write('GET /slow HTTP/1.1\r\nhost: x\r\n\r\n');
    await waitUntil('it has the request', () => gate.started === 1);
    await ask(first);
    for (const socket of [half, second, first]) {
      assert.equal(socket.closed, false);
      const end = once(socket, 'close');
      await ask(open());
      await end;
    }
    gate.open();
    assert.match(String((await once(slow, 'data'))[0]), /^HTTP\/1\.1 200 /);
    await server.close(0);
    await api.close();
  });

  it('closes no WebSocket for a new connection, but one on which no request is open', async () => {
    const live = defineRoute({
      method: 'get',
      path: '/live',
      access: 'any-key',
      summary: 'Becomes a WebSocket',
      responses: { 101: 'empty' },
      handle({ app, ctx, caller }) {
        app.sockets?.open(ctx.req, caller, () => undefined);
        ctx.respond = false;
        return Promise.resolve({ status: 101 });
      },
    });
    const { api } = await start();
    const server = await serve(api.context, [live], { host: '127.0.0.1', port: 0, connections: 2 });
    const headers = { authorization: `Bearer ${api.key}` };
    const socket = new WebSocket(`ws://127.0.0.1:${server.port}/live`, { headers }).on('error', () => undefined);
    await once(socket, 'open');
    const silent = connect(server.port, '127.0.0.1').on('error', () => undefined);
    const closed = Promise.race([once(silent, 'close').then(() => 'silent'), once(socket, 'close').then(() => 'live')]);
    await once(silent, 'connect');
    const another = connect(server.port, '127.0.0.1').on('error', () => undefined);
    assert.equal(await closed, 'silent');
    another.destroy();
    socket.terminate();
    await server.close(0);
    await api.close();
  });

  it('answers 408 to a request that does not come to its end in time, and to what is no HTTP 400', async () => {
    const { gate, api } = await start();
    const server = await serve(api.context, routesOf(gate), { host: '127.0.0.1', port: 0, requestTimeoutMs: 200 });
    const send = async (...lines: string[]) => {
      const socket = connect(server.port, '127.0.0.1');
      socket.write(lines.join('\r\n'));
      let text = '';
      for await (const chunk of socket) text += String(chunk);
      const [head = '', body = ''] = text.split('\r\n\r\n');
      return { head, body: JSON.parse(body) as { status: number; code: string; request_id: string } };
    };
    const json = 'content-type: application/json';
    const starts = [
      ['POST /echo HTTP/1.1', 'host: x', json, 'content-length: 1000', '', '{'],
      ['POST /echo HTTP/1.1', 'host: x', json, 'transfer-encoding: chunked', '', '1', '{', ''],
      ['GET /stream HTTP/1.1', 'host'],
    ];
    for (const lines of starts) {
      const { head, body } = await send(...lines);
      assert.match(head, /^HTTP\/1\.1 408 [\s\S]*content-type: application\/problem\+json/i);
      assert.deepEqual([body.status, body.code], [408, 'request-timeout']);
      assert.ok(body.request_id.length > 0);
    }
    for (const lines of [
      ['no HTTP at all', '', ''],
      ['GET / HTTP/1.1', 'host: x', 'content-length: 1', 'transfer-encoding: chunked', '', ''],
    ]) {
      const { head, body } = await send(...lines);
      assert.match(head, /^HTTP\/1\.1 400 /);
      assert.deepEqual([body.status, body.code], [400, 'bad-request']);
    }
    for (const [status, ...headers] of [
      ['400', 'connection: close'],
      ['417', 'connection: close', 'host: x', 'expect: more'],
    ]) {
      const { head, body } = await send('GET /stream HTTP/1.1', ...headers, '', '');
      assert.match(head, new RegExp(`^HTTP/1\\.1 ${status} [\\s\\S]*content-type: application/problem\\+json`, 'i'));
      assert.equal(body.status, Number(status));
    }
    const quick = await fetch(`${server.url}/echo`, {
      method: 'POST',
      body: '{}',
      headers: { 'content-type': 'application/json' },
    });
    assert.equal(quick.status, 200);
    await server.close(0);
    await api.close();
  });

  it('that stops cuts off what is open past its time', async () => {
    const { gate, api } = await start();
    const open = fetch(`${api.url}/slow`);
    open.catch(() => undefined);
    await waitUntil('it is open', () => gate.started === 1);
    await api.close();
    await assert.rejects(open);
    gate.open();
  });

  describe('that reads bodies', () => {
    const MB = 1024 * 1024;
    const FULL = 10 * MB;
    const spaces = ' '.repeat(FULL - 2);
    const packed = gzipSync(`${spaces}{}`);
    let api: TestApi;
    let server: RunningApi;
    const opened: Socket[] = [];
    const startServer = (more: { bodyBytesAtOnce: number; requestTimeoutMs?: number }) =>
      serve(api.context, routesOf(newGate()), { host: '127.0.0.1', port: 0, ...more });
    before(async () => {
      ({ api } = await start());
      server = await startServer({ bodyBytesAtOnce: 12 * MB });
    });
    afterEach(() => {
      for (const socket of opened.splice(0)) socket.destroy();
    });
    after(async () => {
      await server.close(0);
      await api.close();
    });

    const post = (bytes: number, at = server) =>
      fetch(`${at.url}/echo`, {
        method: 'POST',
        body: `{${' '.repeat(bytes - 2)}}`,
        headers: { 'content-type': 'application/json' },
      });
    /** Sends a body, or the beginning of one. */
    const send = (headers: string[], body: string | Buffer, at = server) => {
      const socket = connect(at.port, '127.0.0.1').on('error', () => undefined);
      opened.push(socket);
      let answer = '';
      socket.on('data', (chunk) => {
        answer += String(chunk);
      });
      const json = 'content-type: application/json';
      socket.write(['POST /echo HTTP/1.1', 'host: x', json, ...headers, '', ''].join('\r\n'));
      socket.write(body);
      const answers = (status: number) => {
        return waitUntil(`it is ${status}`, () => answer.startsWith(`HTTP/1.1 ${status} `));
      };
      return { socket, answers, answer: () => answer };
    };
    const known = [`content-length: ${FULL}`];
    const gzip = [`content-length: ${packed.length}`, 'content-encoding: gzip'];
    const chunked = ['transfer-encoding: chunked'];
    const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
    const isFull = () => waitUntil('there is no more room', async () => (await post(3 * MB)).status === 503);
    const isFree = (at = server) => waitUntil('there is room again', async () => (await post(FULL, at)).status === 200);

    it('refuses those that have no room beside what has come of others', async () => {
      const first = send(known, spaces);
      await isFull();
      const refused = await post(3 * MB);
      const { code, status } = (await refused.json()) as Record<string, unknown>;
      assert.deepEqual([refused.status, code, status], [503, 'unavailable', 503]);
      assert.deepEqual(
        [refused.headers.get('retry-after'), refused.headers.get('content-type')],
        ['2', 'application/problem+json'],
      );
      await send([`content-length: ${3 * MB}`], '').answers(503);
      await send(chunked, chunk(' '.repeat(3 * MB))).answers(503);
      await send(gzip, packed).answers(503);
      assert.equal((await post(1000)).status, 200);
      first.socket.write('{}');
      await first.answers(200);
      assert.equal((await post(FULL)).status, 200);
    });

    it('has their room again, whatever becomes of them', async () => {
      const broken: [string[], string | Buffer][] = [
        [known, spaces],
        [chunked, chunk(spaces)],
        [gzip, packed.subarray(0, -10)],
      ];
      for (const [headers, body] of broken) {
        const { socket } = send(headers, body);
        await isFull();
        socket.destroy();
        await isFree();
      }
      await send(chunked, `${chunk(spaces)}${chunk(spaces)}0\r\n\r\n`).answers(413);
      const cut = packed.subarray(0, -10);
      await send([`content-length: ${cut.length}`, 'content-encoding: gzip'], cut).answers(400);
      await send(known, `${spaces}{]`).answers(400);
      assert.equal((await post(FULL)).status, 200);
      const hasty = await startServer({ bodyBytesAtOnce: FULL, requestTimeoutMs: 2000 });
      for (const [headers, body] of broken) {
        await send(headers, body, hasty).answers(408);
        await isFree(hasty);
      }
      await hasty.close(0);
    });

    it('reads them in pieces of any size', async () => {
      const text = `{"${'ä'.repeat(3000)}":1}`;
      const bytes = [...Buffer.from(text)].map((byte) => Buffer.from([byte]));
      const pieces = bytes.flatMap((byte) => [Buffer.from('1\r\n'), byte, Buffer.from('\r\n')]);
      const { answers, answer } = send(chunked, Buffer.concat([...pieces, Buffer.from('0\r\n\r\n')]));
      await answers(400);
      await waitUntil('all is said', () => answer().includes('ä'.repeat(3000)));
    });
  });

  describe('that runs', () => {
    let gate: ReturnType<typeof newGate>;
    let api: TestApi;
    before(async () => {
      ({ gate, api } = await start());
    });
    after(() => api.close());

    it('calls it no error when the client of a stream goes away', async () => {
      const client = new AbortController();
      const response = await fetch(`${api.url}/stream`, { signal: client.signal });
      await response.body?.getReader().read();
      client.abort();
      await api.call('GET', '/broken');
      await waitUntil('the request is logged', () => api.log.some((line) => line['disconnected'] === true));
      assert.ok(!api.log.some((line) => line['msg'] === 'an answer broke off'));
      gate.open();
    });

    it('tells nothing of what went wrong inside, and logs it', async () => {
      const answer = await api.call('GET', '/broken');
      assert.deepEqual([answer.status, answer.json.code], [500, 'internal']);
      assert.doesNotMatch(answer.text, /hunter2|at .*\.[jt]s/);
      const line = api.log.find(
        (each) => each['request_id'] === answer.json.request_id && each['msg'] === 'request failed',
      );
      assert.match(JSON.stringify(line), /hunter2.*serve\.test\.[jt]s/);
    });
  });
});
