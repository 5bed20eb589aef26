import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import type { ToolAttempt } from '../../../core/tool.ts';
import { createEgress } from '../../../tools/egress.ts';
import { callMcpTool } from '../../../tools/mcp/call-tool.ts';
import { createMcpPool, type McpPool } from '../../../tools/mcp/pool.ts';
import { startServer, type LocalServer } from '../../support/echo-server.ts';
import { attemptOf, briefly, outputOf } from '../../support/tool-attempt.ts';
import { waitUntil } from '../../support/wait-until.ts';

interface Rpc {
  id?: number;
  method: string;
  params?: { name?: string; protocolVersion?: string };
}

const EVENTS = { 'content-type': 'text/event-stream' };
/** Far longer than the pool of these tests waits for headers, or in silence. */
const WORK_MS = 1500;

/** What a server answers to a request; undefined to a notification. */
function answerTo({ id, method, params }: Rpc): string | undefined {
  if (id === undefined) return undefined;
  const { protocolVersion } = params ?? {};
  const introduced = { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'slow', version: '1' } };
  const result = method === 'initialize' ? introduced : { content: [{ type: 'text', text: 'done' }] };
  return JSON.stringify({ jsonrpc: '2.0', id, result });
}

describe('a tool that works for longer than headers or silence may last', () => {
  let server: LocalServer;
  let pool: McpPool;
  beforeEach(() => {
    pool = createMcpPool({ egress: createEgress({ allow: [], allowLoopback: true }), headersMs: 1000, silenceMs: 200 });
  });
  afterEach(async () => {
    await pool.close();
    await server.close();
  });

  const call = (type: 'mcp_http' | 'mcp_sse', more: Partial<ToolAttempt> = {}) => {
    const target = { tenantId: 't', server: { type, endpoint: `${server.url}/mcp` } };
    return callMcpTool({ target, name: 'work' }, attemptOf({}, more), pool);
  };

  it('is waited for over HTTP with SSE, since its answer comes in the stream of the session', async () => {
    let events: ServerResponse | undefined;
    server = await startServer(({ method, body }, response) => {
      if (method === 'GET') {
        events = response.writeHead(200, EVENTS);
        return events.write('event: endpoint\ndata: /message\n\n');
      }
      response.writeHead(202).end();
      const rpc = JSON.parse(body) as Rpc;
      const answer = answerTo(rpc);
      const send = () => events?.write(`data: ${answer}\n\n`);
      if (answer === undefined) return undefined;
      return rpc.method === 'tools/call' ? setTimeout(send, WORK_MS) : send();
    });
    assert.equal(outputOf(await call('mcp_sse')), 'done');
    events = undefined;
    const outcome = call('mcp_sse');
    await waitUntil('it is called', () => server.seen.filter(({ body }) => body.includes('tools/call')).length === 2);
    for (const { method, socket } of server.seen) if (method === 'GET') socket.destroy();
    assert.equal(briefly(await outcome), 'lost server-died', 'the end of that stream ends it');
  });

  /** A server whose answers are JSON, at once or once the work is done. */
  const startJsonServer = (workMs: number) =>
    startServer(({ method, body }, response) => {
      if (method !== 'POST') return response.writeHead(405).end();
      const rpc = JSON.parse(body) as Rpc;
      const answer = answerTo(rpc);
      if (answer === undefined) return response.writeHead(202).end();
      const send = () => response.writeHead(200, { 'content-type': 'application/json' }).end(answer);
      return rpc.method === 'tools/call' ? setTimeout(send, workMs).unref() : send();
    });

  it('is waited for until its deadline where the answer is JSON, whose headers come with it', async () => {
    server = await startJsonServer(WORK_MS);
    assert.equal(outputOf(await call('mcp_http')), 'done');
  });

  it('is cancelled at its server by its deadline where the answer is JSON', async () => {
    server = await startJsonServer(60_000);
    assert.equal(briefly(await call('mcp_http', { timeoutMs: WORK_MS })), 'lost timeout');
    await waitUntil('the server learns of it', () => server.seen.some(({ body }) => body.includes('cancelled')));
  });

  /** A server that ends the stream of a call at once, asks for a pause, and answers who resumes the stream. */
  const startPollingServer = (retryMs: number) => {
    let answer: string | undefined;
    return startServer(({ method, body, headers }, response) => {
      if (method === 'GET') {
        if (headers['last-event-id'] !== 'e1') return response.writeHead(405).end();
        return response.writeHead(200, EVENTS).end(`id: e2\ndata: ${answer}\n\n`);
      }
      const rpc = JSON.parse(body) as Rpc;
      answer = answerTo(rpc);
      if (answer === undefined) return response.writeHead(202).end();
      if (rpc.method !== 'tools/call') return response.writeHead(200, EVENTS).end(`data: ${answer}\n\n`);
      return response.writeHead(200, EVENTS).end(`id: e1\nretry: ${retryMs}\ndata:\n\n`);
    });
  };

  it('is asked for again after the pause that its server has named, however long that is', async () => {
    server = await startPollingServer(WORK_MS);
    assert.equal(outputOf(await call('mcp_http')), 'done');
  });

  it('is asked for ever more rarely where its server names no pause, and ends each stream at once', async () => {
    server = await startServer(({ method, body }, response) => {
      const rpc = method === 'GET' ? undefined : (JSON.parse(body) as Rpc);
      if (rpc?.id === undefined && rpc) return response.writeHead(202).end();
      if (rpc?.method === 'initialize') return response.writeHead(200, EVENTS).end(`data: ${answerTo(rpc)}\n\n`);
      return response.writeHead(200, EVENTS).end('id: e1\nretry: 0\ndata:\n\n');
    });
    assert.equal(briefly(await call('mcp_http', { timeoutMs: 5000 })), 'lost timeout');
    const asked = server.seen.filter(({ method }) => method === 'GET');
    const ofCall = asked.filter(({ headers }) => headers['last-event-id'] !== undefined);
    assert.ok(ofCall.length >= 3, `${ofCall.length} requests in 5 s`);
    // Those for the call, and those for the stream of the session.
    assert.ok(asked.length <= 20, `${asked.length} requests in 5 s`);
  });

  it('is asked for no longer than its deadline allows, whatever pause its server names', async () => {
    server = await startPollingServer(600_000);
    assert.equal(briefly(await call('mcp_http', { timeoutMs: 1000 })), 'lost timeout');
  });
});
