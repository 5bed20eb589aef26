import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { brotliCompressSync, createGzip, deflateSync, gzipSync, type Gzip } from 'node:zlib';
import { LIMITS } from '../../core/limits.ts';
import { anthropicModel } from '../../llm/anthropic.ts';
import { openaiModel } from '../../llm/openai.ts';
import { createPaces } from '../../llm/model-pace.ts';
import { embedOverHttp } from '../../llm/openai-embeddings.ts';
import { withDeadline } from '../../lib/deadline.ts';
import { providerFetch } from '../../llm/provider-fetch.ts';
import { ask, modelRequest } from '../support/model-request.ts';
import { forNobody, unpaid } from '../support/unpaid-embeddings.ts';

const EVENTS = [
  {
    type: 'message_start',
    message: { id: 'm', role: 'assistant', model: 'c', content: [], usage: { input_tokens: 1, output_tokens: 1 } },
  },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hello' } },
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } },
  { type: 'message_stop' },
];

describe('The connection to a model provider', () => {
  let server: Server;
  let connections = 0;
  let answer: (request: IncomingMessage, response: ServerResponse) => void;

  before(async () => {
    server = createServer((request, response) => {
      request.resume().once('end', () => answer(request, response));
    });
    server.on('connection', () => (connections += 1));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });

  beforeEach(() => {
    connections = 0;
  });

  after(() => {
    server.closeAllConnections();
    server.close();
  });

  const url = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  for (const [name, open] of Object.entries({ anthropicModel, openaiModel })) {
    it(`is given up where nobody reads its answer, a web page without end (${name})`, async () => {
      let closed: Promise<unknown> | undefined;
      answer = (_request, response) => {
        closed = once(response, 'close');
        response.writeHead(200, { 'content-type': 'text/html' }).write('<p>');
      };
      await assert.rejects(ask(open({ apiKey: 'key', baseUrl: url() }), modelRequest()), /web page/);
      await withDeadline(closed ?? Promise.reject(new Error('nobody has asked')), 5000, 'the connection is still open');
    });
  }

  it('takes texts that are to be embedded nowhere that a redirect names', async () => {
    let asked = 0;
    answer = (_request, response) => {
      asked += 1;
      response.writeHead(307, { location: `${url()}/elsewhere` }).end();
    };
    const options = { signal: new AbortController().signal, payer: forNobody };
    const credential = { apiKey: 'key', baseUrl: url() };
    const paidServer = { credential, pay: unpaid, paceOf: createPaces({}) };
    await assert.rejects(embedOverHttp(paidServer, { model: 'm', texts: ['private'], options }), /answered 307/);
    assert.equal(asked, 1);
  });

  it('is used again for the next call, also where its answer ends a little after the last piece', async () => {
    let finished: Promise<unknown> | undefined;
    answer = (_request, response) => {
      finished = once(response, 'close');
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const event of EVENTS) response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
      setTimeout(() => response.end(), 20);
    };
    const stream = anthropicModel({ apiKey: 'key', baseUrl: url() });
    for (let n = 0; n < 10; n++) {
      const { response } = await ask(stream, modelRequest());
      assert.deepEqual(response.content, [{ type: 'text', text: 'Hello' }]);
      await finished;
    }
    // The server's end may come to the client after the next call has begun, now and then.
    assert.ok(connections < 5, `${connections} connections`);
  });

  it('is used again behind a `100 Continue` that nobody has asked for, which may stand before each answer', async () => {
    let finished: Promise<unknown> | undefined;
    answer = (_request, response) => {
      finished = once(response, 'close');
      response.writeContinue();
      setImmediate(() => response.end('{}'));
    };
    for (let n = 0; n < 10; n++) {
      const response = await providerFetch(url(), { method: 'POST', body: '{}' });
      assert.deepEqual(await response.json(), {});
      await finished;
    }
    assert.ok(connections < 5, `${connections} connections`);
  });

  it('ends when the caller is no longer interested', async () => {
    let closed: Promise<unknown> | undefined;
    answer = (_request, response) => {
      closed = once(response, 'close');
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {}\n\n');
    };
    const stop = new AbortController();
    const response = await providerFetch(url(), { method: 'POST', body: '{}', signal: stop.signal });
    const reading = (async () => {
      for await (const piece of response.body ?? []) if (piece.length > 0) stop.abort();
    })();
    await assert.rejects(reading, { name: 'AbortError' });
    await closed;
  });

  it('asks for answers as they are, which a gateway would compress if it were not told', async () => {
    answer = (request, response) => {
      const isPlain = request.headers['accept-encoding'] === 'identity';
      const body = Buffer.from('{"error": {"message": "no such key"}}');
      response.writeHead(401, {
        'content-type': 'application/json',
        ...(!isPlain && { 'content-encoding': 'gzip' }),
      });
      response.end(isPlain ? body : gzipSync(body));
    };
    for (const open of [anthropicModel, openaiModel]) {
      const asked = ask(open({ apiKey: 'k', baseUrl: url() }), modelRequest());
      await assert.rejects(asked, { message: /: no such key \(status 401\)$/ });
    }
  });

  const packed = (pieces: readonly string[], end: (packing: Gzip) => void) => {
    answer = (_request, response) => {
      const packing = createGzip();
      packing.pipe(response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' }));
      for (const piece of pieces) packing.write(piece);
      end(packing);
    };
  };
  const sse = EVENTS.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);

  it('takes answers of a gateway that compresses all the same, streams and errors', async () => {
    packed(sse, (packing) => packing.end());
    const { response } = await ask(anthropicModel({ apiKey: 'k', baseUrl: url() }), modelRequest());
    assert.deepEqual(response.content, [{ type: 'text', text: 'Hello' }]);
    answer = (_request, sent) => {
      sent.writeHead(401, { 'content-type': 'application/json', 'content-encoding': 'br' });
      sent.end(brotliCompressSync('{"error": {"message": "no such key"}}'));
    };
    for (const open of [anthropicModel, openaiModel])
      await assert.rejects(ask(open({ apiKey: 'k', baseUrl: url() }), modelRequest()), /: no such key \(status 401\)$/);
  });

  it('passes on what has come of a compressed stream, while the rest is still to come', async () => {
    let rest: () => void = () => assert.fail('nobody has asked');
    packed(['data: 1\n\n'], (packing) => {
      packing.flush();
      rest = () => packing.end('data: 2\n\n');
    });
    const response = await providerFetch(url(), { method: 'POST', body: '{}' });
    const got: string[] = [];
    for await (const piece of response.body ?? []) {
      got.push(Buffer.from(piece).toString());
      if (got.length === 1) rest();
    }
    assert.deepEqual(got, ['data: 1\n\n', 'data: 2\n\n']);
  });

  it('has broken off where a compressed stream does, though the connection has only been closed', async () => {
    for (const encoding of ['gzip', 'deflate']) {
      answer = (_request, { socket }) => {
        const whole = (encoding === 'gzip' ? gzipSync : deflateSync)(sse.join(''));
        const head = `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: ${encoding}\r\n\r\n`;
        socket?.end(Buffer.concat([Buffer.from(head), whole.subarray(0, whole.length - 40)]));
      };
      const asked = ask(anthropicModel({ apiKey: 'k', baseUrl: url() }), modelRequest());
      await assert.rejects(asked, { kind: 'unavailable', message: /the answer breaks off/ });
    }
  });

  it('ends a compressed answer at the limit of what it comes to', async () => {
    packed([], (packing) => packing.end(Buffer.alloc(LIMITS.modelLineBytes + 1, 'x')));
    const response = await providerFetch(url(), { method: 'POST', body: '{}' });
    await assert.rejects(
      (async () => {
        for await (const piece of response.body ?? []) assert.ok(piece.length > 0);
      })(),
      { kind: 'invalid_request', message: /longer than/ },
    );
  });

  it('is done with a compressed answer when the caller is, though all of it has come', async () => {
    const body = gzipSync(Buffer.alloc(10_000_000, '\n'));
    answer = (_request, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(body);
    const stop = new AbortController();
    const response = await providerFetch(url(), { method: 'POST', body: '{}', signal: stop.signal });
    const reading = (async () => {
      let bytes = 0;
      for await (const piece of response.body ?? []) {
        bytes += piece.length;
        if (bytes > body.length * 100) stop.abort();
      }
    })();
    await assert.rejects(reading, { name: 'AbortError' });
  });

  it('takes an answer without a body for one, whatever it says of how that is packed', async () => {
    for (const status of [204, 304]) {
      answer = (_request, response) => response.writeHead(status, { 'content-encoding': 'gzip' }).end();
      const response = await providerFetch(url(), { method: 'POST', body: '{}' });
      assert.deepEqual([response.status, await response.text()], [status, '']);
    }
  });

  it('names an encoding that it cannot read', async () => {
    answer = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'zstd' });
      response.end(Buffer.from([0x28, 0xb5, 0x2f, 0xfd]));
    };
    for (const open of [anthropicModel, openaiModel]) {
      const asked = ask(open({ apiKey: 'k', baseUrl: url() }), modelRequest());
      await assert.rejects(asked, { kind: 'invalid_request', message: /"zstd"/ });
    }
  });

  it('goes to the address of the credential alone: a redirect is an answer, not followed', async () => {
    const asked: (string | undefined)[] = [];
    answer = (request, response) => {
      asked.push(request.url);
      response.writeHead(307, { location: `${url()}/elsewhere` }).end('moved');
    };
    const response = await providerFetch(`${url()}/v1`, {
      method: 'POST',
      headers: { 'x-api-key': 'key' },
      body: '{}',
    });
    assert.deepEqual([response.status, response.ok, await response.text()], [307, false, 'moved']);
    assert.deepEqual(asked, ['/v1']);
  });

  it('that cannot be made says why, as fetch does', async () => {
    const refused = providerFetch('http://127.0.0.1:1', { method: 'POST', body: '{}' });
    await assert.rejects(refused, (error: Error) => {
      assert.equal(error.message, 'fetch failed');
      assert.equal((error.cause as NodeJS.ErrnoException).code, 'ECONNREFUSED');
      return true;
    });
  });
});
