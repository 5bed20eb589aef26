/** Answers that come compressed, through the egress guard. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { brotliCompressSync, constants, createGzip, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { outcomeOfEgressError, EgressError } from '../../tools/egress-error.ts';
import { createEgress } from '../../tools/egress.ts';
import type { EgressInit } from '../../tools/egress.ts';
import { decodeBody } from '../../tools/response-body.ts';
import { startServer, type LocalServer } from '../support/echo-server.ts';

const TEXT = JSON.stringify(Array.from({ length: 2000 }, (_, n) => n * n));
const packFast = (bytes: Buffer) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 2 } });
const PACKINGS = {
  gzip: gzipSync,
  'x-gzip': gzipSync,
  GZIP: gzipSync,
  deflate: deflateSync,
  'deflate (raw)': deflateRawSync,
  br: packFast,
  'deflate, gzip': (bytes: Buffer) => gzipSync(deflateSync(bytes)),
  'br, identity, gzip': (bytes: Buffer) => gzipSync(packFast(bytes)),
};
const HOW = Object.entries(PACKINGS).map(([name, pack]) => ({
  name,
  encoding: name.replace(' (raw)', ''),
  packed: pack(Buffer.from(TEXT)),
}));

interface Answer {
  encoding: string;
  body: Buffer;
  status?: number;
  /** How the head says where the body ends: with the connection, unless it is set. */
  framed?: 'length' | 'chunked';
  /** Where the connection breaks off in a chunked body. */
  isCut?: boolean;
}

describe('A compressed answer', () => {
  let server: LocalServer;
  let answer: Answer;

  before(async () => {
    server = await startServer(({ socket }) => {
      const { encoding, body, status = 200, framed, isCut = false } = answer;
      const framing = { length: `content-length: ${body.length}\r\n`, chunked: 'transfer-encoding: chunked\r\n' };
      const type = 'content-type: application/json\r\n';
      const head = `HTTP/1.1 ${status} Any\r\n${type}${framed ? framing[framed] : ''}content-encoding: ${encoding}\r\n\r\n`;
      socket.write(head);
      if (framed !== 'chunked') socket.end(body);
      else {
        if (body.length > 0) socket.write(`${body.length.toString(16)}\r\n`);
        if (body.length > 0) socket.write(Buffer.concat([body, Buffer.from('\r\n')]));
        socket.end(isCut ? '' : '0\r\n\r\n');
      }
    });
  });
  after(() => server.close());

  const egress = createEgress({ allow: [], allowLoopback: true });
  const limits = { timeoutMs: 30_000, signal: new AbortController().signal };
  const ask = (given: Answer, init: Partial<EgressInit> = {}) => {
    answer = given;
    return egress.fetch(server.url, { method: 'POST', body: '{}', maxBytes: 100_000, ...limits, ...init });
  };
  const stream = async (given: Answer, maxBytes = 100_000) => {
    answer = given;
    const faults: (EgressError | undefined)[] = [];
    const onEnd = (fault?: EgressError) => faults.push(fault);
    const init = { method: 'POST', headers: {}, maxBytes, maxValues: 10_000, ...limits, onEnd };
    return { response: await egress.open(server.url, init), faults };
  };
  const failed = async (work: Promise<unknown>) => {
    const error = await work.then(
      () => assert.fail('it has been taken'),
      (reason: unknown) => reason,
    );
    assert.ok(error instanceof EgressError, String(error));
    return error;
  };
  const assertLost = async (work: Promise<unknown>, why: RegExp) => {
    const error = await failed(work);
    assert.match(error.message, why);
    assert.equal(outcomeOfEgressError(error).kind, 'lost');
  };

  for (const { name, encoding, packed } of HOW) {
    it(`is unpacked: ${name}`, async () => {
      for (const framed of [undefined, 'length', 'chunked'] as const) {
        const { body } = await ask({ encoding, body: packed, ...(framed && { framed }) });
        assert.equal(body.toString(), TEXT);
        const { response, faults } = await stream({ encoding, body: packed, ...(framed && { framed }) });
        assert.equal(await response.text(), TEXT);
        assert.deepEqual(faults, [undefined]);
      }
    });

    it(`that breaks off is lost, though its connection has only been closed: ${name}`, async () => {
      for (const length of [1, packed.length >> 1, packed.length - 1]) {
        const cut = { encoding, body: packed.subarray(0, length) };
        for (const framed of [undefined, 'length', 'chunked'] as const)
          await assertLost(ask({ ...cut, ...(framed && { framed }) }), /breaks off/);
        const { response, faults } = await stream(cut);
        await assertLost(response.text(), /breaks off/);
        assert.equal(faults[0]?.code, 'lost');
      }
    });
  }

  it('that breaks off within its chunks is lost, as it is uncompressed', async () => {
    for (const { encoding, packed } of HOW)
      await assertLost(
        ask({ encoding, body: packed.subarray(0, 100), framed: 'chunked', isCut: true }),
        /broke|breaks/,
      );
    await assertLost(
      ask({ encoding: 'identity', body: Buffer.from('[1'), framed: 'chunked', isCut: true }),
      /connection/,
    );
  });

  it('of another form than its Content-Encoding says, or with something behind it, is lost, and says so', async () => {
    const other = Buffer.from(TEXT);
    for (const encoding of ['gzip', 'deflate', 'br'])
      await assertLost(ask({ encoding, body: other }), /Content-Encoding/);
    const more = Buffer.concat([gzipSync(TEXT), Buffer.from('<!-- gateway -->')]);
    await assertLost(ask({ encoding: 'gzip', body: more }), /Content-Encoding/);
  });

  it('without a body is empty where its head says so, and broken off where only the connection has ended', async () => {
    const empty = { encoding: 'gzip', body: Buffer.alloc(0) };
    for (const framed of ['length', 'chunked'] as const)
      assert.deepEqual(decodeBody(await ask({ ...empty, framed })), { output: null });
    for (const status of [204, 304]) assert.equal((await ask({ ...empty, status })).status, status);
    await assertLost(ask(empty), /breaks off/);
  });

  it('is counted unpacked, and is too large as soon as it is', async () => {
    for (const pack of [gzipSync, (bytes: Buffer) => gzipSync(gzipSync(bytes))]) {
      const bomb = { encoding: pack === gzipSync ? 'gzip' : 'gzip, gzip', body: pack(Buffer.alloc(50_000_000)) };
      assert.equal((await failed(ask(bomb))).code, 'too-large');
      const { response, faults } = await stream(bomb);
      assert.equal((await failed(response.text())).code, 'too-large');
      assert.equal(faults[0]?.code, 'too-large');
    }
  });

  it('that holds next to nothing for what it is packed in is lost at once, though it would never be too large', async () => {
    const nothing = packFast(Buffer.concat(Array<Buffer>(1_000_000).fill(gzipSync(''))));
    const bomb = { encoding: 'gzip, br', body: nothing };
    await assertLost(ask(bomb), /far more bytes than it has/);
    const { response, faults } = await stream(bomb);
    await assertLost(response.text(), /far more bytes than it has/);
    assert.equal(faults[0]?.code, 'lost');
  });

  it('is whole however little can be packed of it, in two encodings as in one', async () => {
    const body = randomBytes(3_000_000);
    for (const { name, encoding } of HOW) {
      const packed = PACKINGS[name as keyof typeof PACKINGS](body);
      assert.ok((await ask({ encoding, body: packed }, { maxBytes: body.length })).body.equals(body), name);
    }
  });

  it('is not unpacked any further once its reader is gone, though all of it has come', async () => {
    const stop = new AbortController();
    const closing = await startServer(({ socket }) => {
      const body = packFast(Buffer.alloc(100_000_000));
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\ncontent-encoding: br\r\n\r\n`);
      socket.write(body);
      // Whoever has read all of the answer closes the connection.
      socket.once('end', () => stop.abort());
    });
    const init = { method: 'POST', body: '{}', maxBytes: 200_000_000, ...limits, signal: stop.signal };
    assert.equal((await failed(egress.fetch(closing.url, init))).code, 'aborted');
    await closing.close();
  });

  it('that is streamed ends with its signal, though all of it has come', async () => {
    const stop = new AbortController();
    const body = gzipSync(Buffer.alloc(10_000_000));
    answer = { encoding: 'gzip', body, framed: 'length' };
    const init = { method: 'POST', headers: {}, maxBytes: 20_000_000, maxValues: 10, ...limits, signal: stop.signal };
    const reader = (await egress.open(server.url, init)).body?.getReader();
    await reader?.read();
    stop.abort();
    const rest = (async () => {
      while ((await reader?.read())?.done === false);
    })();
    assert.equal((await failed(rest)).code, 'lost');
  });

  it('in an encoding that Drover does not know is an error that names it, unless its status says enough', async () => {
    const many = Array.from({ length: 3 }, () => 'gzip').join(', ');
    for (const [encoding, named] of [
      ['zstd', 'zstd'],
      ['gzip, compress', 'compress'],
      [many, many],
    ] as const) {
      const body = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0]);
      const decoded = decodeBody(await ask({ encoding, body }));
      assert.ok('fault' in decoded);
      assert.equal(decoded.fault.code, 'egress-unknown-encoding');
      assert.ok(decoded.fault.message.includes(`"${named}"`), decoded.fault.message);
      const { response, faults } = await stream({ encoding, body });
      const error = await failed(response.text());
      assert.equal(outcomeOfEgressError(error).kind, 'error');
      assert.deepEqual([error.code, error.message], ['unknown-encoding', decoded.fault.message]);
      assert.deepEqual(faults, [error]);
      const refused = await ask({ encoding, body, status: 429 });
      assert.equal(refused.status, 429);
    }
  });

  it('that is text as it is, whatever it names as its Content-Encoding, is that text', async () => {
    for (const encoding of ['utf-8', 'none', 'zstd']) {
      const body = Buffer.from('["ä"]');
      assert.deepEqual(decodeBody(await ask({ encoding, body })), { output: ['ä'] });
      assert.equal(await (await stream({ encoding, body })).response.text(), '["ä"]');
    }
  });

  it('gives what has come of it, while it goes on', async () => {
    const streaming = await startServer((_request, response) => {
      const packed = createGzip();
      packed.pipe(response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' }));
      packed.write('data: 1\n\n');
      packed.flush();
    });
    const init = { method: 'GET', headers: {}, maxBytes: 1000, maxValues: 10, ...limits };
    const response = await egress.open(streaming.url, init);
    const reader = response.body?.getReader();
    const piece = await reader?.read();
    assert.equal(Buffer.from(piece?.value as Uint8Array).toString(), 'data: 1\n\n');
    await reader?.cancel();
    await streaming.close();
  });
});
