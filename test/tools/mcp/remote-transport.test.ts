import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import type { ToolAttempt } from '../../../core/tool.ts';
import { createEgress } from '../../../tools/egress.ts';
import { callMcpTool } from '../../../tools/mcp/call-tool.ts';
import { createMcpPool, type McpPool } from '../../../tools/mcp/pool.ts';
import { startServer, type LocalServer } from '../../support/echo-server.ts';
import { attemptOf, briefly, messageOf, outputOf } from '../../support/tool-attempt.ts';

interface Rpc {
  id?: number;
  method: string;
  params?: { name?: string; protocolVersion?: string };
}

/** A server of Streamable HTTP that can forget its sessions, and break off as it is told. */
describe('a call over Streamable HTTP', () => {
  let server: LocalServer;
  let pool: McpPool;
  let session = 0;
  let forgotten: { status: number; text: string } | undefined;
  /** Calls that have had their effect. */
  let effects: string[];

  beforeEach(async () => {
    effects = [];
    forgotten = undefined;
    server = await startServer(({ method, body, headers, socket }, response) => {
      if (method !== 'POST') return response.writeHead(405).end();
      const rpc = JSON.parse(body) as Rpc;
      const answer = (result: unknown, more: Record<string, string> = {}) =>
        response
          .writeHead(200, { 'content-type': 'application/json', ...more })
          .end(JSON.stringify({ jsonrpc: '2.0', id: rpc.id, result }));
      if (rpc.method === 'initialize') {
        session += 1;
        forgotten = undefined;
        const serverInfo = { name: 'fake', version: '1' };
        const result = { protocolVersion: rpc.params?.protocolVersion, capabilities: { tools: {} }, serverInfo };
        return answer(result, { 'mcp-session-id': `session-${session}` });
      }
      if (rpc.method !== 'tools/call') return response.writeHead(202).end();
      if (forgotten) return response.writeHead(forgotten.status).end(forgotten.text);
      const name = rpc.params?.name ?? '';
      effects.push(`${name} in ${String(headers['mcp-session-id'])}`);
      if (name === 'drop') return socket.destroy();
      if (name === 'silence') return response.writeHead(200, { 'content-type': 'text/event-stream' }).end(': bye\n\n');
      if (name === 'crowd') return answer({ content: [], structuredContent: { list: Array(300_000).fill(0) } });
      if (name === 'crowd of events') {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        return response.end(`id: 1\ndata:\n\n: "\ndata: {"result":[${'{},'.repeat(1_000_000)}{}]}\n\n`);
      }
      if (name.startsWith('half')) {
        const type = name.endsWith('events') ? 'text/event-stream' : 'application/json';
        const text = `data: ${JSON.stringify({ jsonrpc: '2.0', id: rpc.id, result: { content: [] } })}\n\n`;
        const packed = gzipSync(type === 'text/event-stream' ? text : text.slice('data: '.length));
        const head = `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ncontent-encoding: gzip\r\n\r\n`;
        return socket.end(Buffer.concat([Buffer.from(head), packed.subarray(0, packed.length - 20)]));
      }
      if (name.startsWith('zstd')) {
        const type = name.endsWith('events') ? 'text/event-stream' : 'application/json';
        response.writeHead(200, { 'content-type': type, 'content-encoding': 'zstd' });
        return response.end(Buffer.from([0x28, 0xb5, 0x2f, 0xfd]));
      }
      if (name === 'busy') return response.writeHead(503).end('busy');
      if (name === 'away') return response.writeHead(503, { 'retry-after': '3' }).end('away');
      return answer({ content: [{ type: 'text', text: 'done' }] });
    });
    pool = createMcpPool({ egress: createEgress({ allow: [], allowLoopback: true }) });
  });
  afterEach(async () => {
    await pool.close();
    await server.close();
  });

  const call = (name: string, more: Partial<ToolAttempt> = {}, endpoint = `${server.url}/mcp`) => {
    const target = { tenantId: 't', server: { type: 'mcp_http' as const, endpoint } };
    return callMcpTool({ target, name }, attemptOf({}, more), pool);
  };

  for (const [what, answer] of [
    ['404, as the specification says', { status: 404, text: 'Session not found' }],
    ['400, as others do', { status: 400, text: 'Bad Request: No valid session ID provided' }],
  ] as const) {
    it(`is made once, in a new session, where the server has forgotten the old one and says ${what}`, async () => {
      assert.equal(outputOf(await call('ok')), 'done');
      const first = session;
      forgotten = answer;
      assert.equal(outputOf(await call('ok')), 'done');
      assert.equal(session, first + 1);
      assert.deepEqual(effects, [`ok in session-${first}`, `ok in session-${session}`]);
    });
  }

  it('breaks off where its answer has more values than may be', async () => {
    for (const name of ['crowd', 'crowd of events']) {
      assert.equal(briefly(await call(name)), 'error output-too-large', name);
      assert.equal(effects.length, 1, 'it was answered, and is not asked for again');
      effects = [];
    }
  });

  it('leaves the next connection alone where several say that the server does not know the one before', async () => {
    await pool.close();
    pool = createMcpPool({ egress: createEgress({ allow: [], allowLoopback: true }), idleMs: 1 });
    const target = { tenantId: 't', server: { type: 'mcp_http' as const, endpoint: `${server.url}/mcp` } };
    const old = await pool.acquire(target);
    await pool.acquire(target);
    pool.discard(old);
    pool.release(old);
    const next = await pool.acquire(target);
    pool.discard(old);
    pool.release(old);
    await next.client.callTool({ name: 'ok' });
    assert.equal(await pool.acquire(target), next);
    await pool.close();
    await assert.rejects(next.client.callTool({ name: 'ok' }), /Not connected/);
  });

  it('is lost, and not made again, where the connection breaks after it was sent', async () => {
    assert.equal(briefly(await call('drop')), 'lost lost');
    assert.equal(effects.length, 1);
  });

  it('is lost, and not made again, where its compressed answer breaks off', async () => {
    for (const name of ['half', 'half of events']) {
      assert.equal(briefly(await call(name)), 'lost lost', name);
      assert.equal(effects.length, 1);
      effects = [];
    }
  });

  it('is made, and fails by name, where its answer has an encoding that nobody here knows', async () => {
    for (const name of ['zstd', 'zstd of events']) {
      const outcome = await call(name);
      assert.equal(briefly(outcome), 'error egress-unknown-encoding', name);
      assert.match(messageOf(outcome), /"zstd"/);
      assert.equal(effects.length, 1);
      effects = [];
    }
  });

  it('is lost, and not made again, where the stream ends without an answer', async () => {
    const startedMs = Date.now();
    assert.equal(briefly(await call('silence')), 'lost lost');
    assert.ok(Date.now() - startedMs < 15_000, 'long before its time is up');
    assert.equal(effects.length, 1);
  });

  it('may have had its effect where a proxy says 503', async () => {
    assert.equal(briefly(await call('busy')), 'lost http-503');
  });

  it('surely has had no effect where its server says when to come again', async () => {
    const outcome = await call('away');
    assert.equal(briefly(outcome), 'unreached http-503');
    assert.equal(outcome.kind === 'unreached' && outcome.retryAfterMs, 3000);
    assert.match(messageOf(outcome), /away/);
  });

  it('goes nowhere that the egress guard refuses, and is not tried again', async () => {
    for (const endpoint of ['http://169.254.169.254/mcp', 'http://[::ffff:10.0.0.1]/mcp']) {
      assert.equal(briefly(await call('ok', {}, endpoint)), 'error egress-refused', endpoint);
    }
    assert.equal(server.seen.length, 0);
  });
});

describe('a call over HTTP with SSE', () => {
  it('ends as one whose answer could not be kept where that has more values than may be', async () => {
    const calls: string[] = [];
    let events: ServerResponse | undefined;
    const server = await startServer(({ method, body }, response) => {
      if (method === 'GET') {
        events = response.writeHead(200, { 'content-type': 'text/event-stream' });
        return events.write('event: endpoint\ndata: /message\n\n');
      }
      response.writeHead(202).end();
      const rpc = JSON.parse(body) as Rpc;
      const answer = (result: unknown) =>
        events?.write(`data: ${JSON.stringify({ jsonrpc: '2.0', id: rpc.id, result })}\n\n`);
      const serverInfo = { name: 'fake', version: '1' };
      if (rpc.method === 'initialize')
        return answer({ protocolVersion: rpc.params?.protocolVersion, capabilities: { tools: {} }, serverInfo });
      if (rpc.method !== 'tools/call') return undefined;
      const name = rpc.params?.name ?? '';
      calls.push(name);
      if (name === 'never') return undefined;
      return answer({ content: [], structuredContent: { list: Array(name === 'crowd' ? 300_000 : 3).fill(0) } });
    });
    const pool = createMcpPool({ egress: createEgress({ allow: [], allowLoopback: true }) });
    const target = { tenantId: 't', server: { type: 'mcp_sse' as const, endpoint: `${server.url}/sse` } };
    const call = (name: string) => callMcpTool({ target, name }, attemptOf({}), pool);
    assert.equal(briefly(await call('crowd')), 'error output-too-large');
    assert.deepEqual(outputOf(await call('few')), { list: [0, 0, 0] });
    assert.deepEqual(calls, ['crowd', 'few']);
    // Which of several it answers nobody knows.
    const both = [call('never'), call('crowd')];
    assert.deepEqual((await Promise.all(both)).map(briefly), ['lost server-died', 'lost server-died']);
    await pool.close();
    await server.close();
  });
});
