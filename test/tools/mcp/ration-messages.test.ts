import assert from 'node:assert/strict';
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { LIMITS } from '../../../core/limits.ts';
import { createEgress } from '../../../tools/egress.ts';
import { callMcpTool } from '../../../tools/mcp/call-tool.ts';
import { createMcpPool, type McpPool } from '../../../tools/mcp/pool.ts';
import { rationMessages } from '../../../tools/mcp/ration-messages.ts';
import type { McpServer } from '../../../tools/mcp/server.ts';
import { cpuMs } from '../../support/cpu-time.ts';
import { startServer, type LocalServer } from '../../support/echo-server.ts';
import { door } from '../../support/engine.ts';
import { ODD_SERVER } from '../../support/odd-server.ts';
import { attemptOf, briefly, messageOf } from '../../support/tool-attempt.ts';

const EVENTS = { 'content-type': 'text/event-stream' };
const TO_TAKE_AN_ANSWER_MS = 5;
const REQUESTS = ['ping', 'sampling/createMessage', 'elicitation/create', 'roots/list', 'none/of/these'];
const NOTIFICATIONS = ['message', 'progress', 'tools/list_changed'];
const request = (method: string) => ({ jsonrpc: '2.0', id: 'p1', method, params: {} });
const notification = (name: string) => ({ jsonrpc: '2.0', method: `notifications/${name}`, params: {} });

interface Rpc {
  id?: number;
  method?: string;
  params?: { protocolVersion?: string; name?: string; arguments: { message?: object; times?: number } };
}

/**
 * The tool `flood` sends `message` so many `times` before its answer; `patient` also waits until it has been answered as often
 * as may be; `never` does not answer.
 */
describe('what an MCP server sends of its own accord', () => {
  let pool: McpPool;
  let server: LocalServer;
  let target: { tenantId: string; server: McpServer };
  let sessions: number;
  let allAnswered: () => void;
  let answers: { count: number; atOnce: number; mostAtOnce: number };

  beforeEach(async () => {
    sessions = 0;
    answers = { count: 0, atOnce: 0, mostAtOnce: 0 };
    server = await startServer(({ method: verb, body }, response) => {
      if (verb !== 'POST') return response.writeHead(405).end();
      const { id, method, params } = JSON.parse(body) as Rpc;
      if (method === undefined) {
        answers.count += 1;
        answers.mostAtOnce = Math.max(answers.mostAtOnce, ++answers.atOnce);
        return setTimeout(() => {
          answers.atOnce -= 1;
          response.writeHead(202).end();
          if (answers.count === LIMITS.mcpServerRequests) allAnswered();
        }, TO_TAKE_AN_ANSWER_MS);
      }
      const result = (value: object) => JSON.stringify({ jsonrpc: '2.0', id, result: value });
      if (method === 'initialize') {
        sessions += 1;
        const serverInfo = { name: 'fake', version: '1' };
        const { protocolVersion } = params ?? {};
        response.writeHead(200, { 'content-type': 'application/json' });
        return response.end(result({ protocolVersion, capabilities: { tools: {} }, serverInfo }));
      }
      if (method !== 'tools/call' || !params) return response.writeHead(202).end();
      response.writeHead(200, EVENTS);
      if (params.name === 'never') return response.flushHeaders();
      const { message, times = 0 } = params.arguments;
      response.write(`data: ${JSON.stringify(message)}\n\n`.repeat(times));
      const end = () => response.end(`data: ${result({ content: [{ type: 'text', text: 'done' }] })}\n\n`);
      if (params.name === 'patient') allAnswered = end;
      else end();
      return response;
    });
    pool = createMcpPool({ egress: createEgress({ allow: [], allowLoopback: true }) });
    target = { tenantId: 't', server: { type: 'mcp_http', endpoint: `${server.url}/mcp` } };
  });
  afterEach(async () => {
    await pool.close();
    await server.close();
  });

  const flood = (message: object, times: number, name = 'flood') =>
    callMcpTool({ target, name }, attemptOf({ message, times }), pool);

  it('is answered, request by request, as long as there are no more than a minute may have', async () => {
    assert.equal(briefly(await flood(request('ping'), LIMITS.mcpServerRequests, 'patient')), 'succeeded');
    assert.equal(briefly(await flood(notification('message'), 1000)), 'succeeded');
    assert.deepEqual(answers, { count: LIMITS.mcpServerRequests, atOnce: 0, mostAtOnce: 1 });
    assert.equal(sessions, 1);
  });

  it('is rationed anew each minute', async () => {
    const many = LIMITS.mcpServerNotifications * 0.6;
    assert.equal(briefly(await flood(notification('message'), many)), 'succeeded');
    const now = performance.now.bind(performance);
    try {
      performance.now = () => now() + 60_000;
      assert.equal(briefly(await flood(notification('message'), many)), 'succeeded');
    } finally {
      performance.now = now;
    }
    assert.equal(sessions, 1);
  });

  it('is listened to no longer once it is too much: what else has come is not even parsed', async () => {
    const [transport, other] = InMemoryTransport.createLinkedPair();
    rationMessages(transport);
    Object.assign(transport, { onmessage: () => undefined });
    await transport.start();
    for (let n = 0; n <= LIMITS.mcpServerRequests; n += 1) {
      assert.ok(transport.onmessage);
      await other.send({ jsonrpc: '2.0', id: n, method: 'ping' });
    }
    assert.equal(transport.onmessage, undefined);
  });

  it('is answered no more once it is too much, though answers to it wait for their turn', async () => {
    const [transport, other] = InMemoryTransport.createLinkedPair();
    const way = door();
    const sent: unknown[] = [];
    const answered: Promise<void>[] = [];
    transport.send = (message) => {
      sent.push(message);
      return way.pass();
    };
    rationMessages(transport);
    const onmessage = (message: JSONRPCMessage) => {
      if ('id' in message && 'method' in message)
        answered.push(transport.send({ jsonrpc: '2.0', id: message.id, result: {} }));
    };
    Object.assign(transport, { onmessage });
    await transport.start();
    for (let n = 0; n <= LIMITS.mcpServerRequests; n += 1) await other.send({ jsonrpc: '2.0', id: n, method: 'ping' });
    way.open();
    await Promise.all(answered);
    assert.equal(sent.length, 1);
  });

  it('ends the call and its connection where it makes more requests, with few of them answered', async () => {
    for (const method of REQUESTS) {
      const outcome = await flood(request(method), LIMITS.mcpServerRequests * 3);
      assert.equal(briefly(outcome), 'error output-too-large', method);
      assert.match(messageOf(outcome), /more requests or notifications of its own/);
    }
    assert.equal(sessions, REQUESTS.length, 'each call has a connection of its own');
    assert.ok(answers.count <= LIMITS.mcpServerRequests * REQUESTS.length, `${answers.count} answers`);
    assert.equal(briefly(await flood({}, 0)), 'succeeded');
  });

  it('ends them where it sends more notifications, answers that nobody awaits or texts that are no message', async () => {
    const answer = { jsonrpc: '2.0', id: 12_345, result: {} };
    for (const message of [...NOTIFICATIONS.map(notification), answer, { no: 'message' }])
      assert.equal(
        briefly(await flood(message, LIMITS.mcpServerNotifications + 1)),
        'error output-too-large',
        JSON.stringify(message),
      );
  });

  it('leaves the outcomes unknown where several calls are under way, since it may belong to any of them', async () => {
    const never = callMcpTool({ target, name: 'never' }, attemptOf({}), pool);
    const both = await Promise.all([never, flood(request('ping'), LIMITS.mcpServerRequests * 3)]);
    assert.deepEqual(both.map(briefly), ['lost server-died', 'lost server-died']);
  });

  it('ends a program likewise, and the next call starts another', async () => {
    target = { tenantId: 't', server: { type: 'mcp_stdio', ...ODD_SERVER } };
    const outcome = await flood(request('ping'), LIMITS.mcpServerRequests * 3);
    assert.equal(briefly(outcome), 'error output-too-large');
    assert.equal(briefly(await flood({}, 0)), 'succeeded');
  });

  it('keeps the process from little else where it prints lines without an end that are no message', async () => {
    // Faster than they can be read, until nobody reads them.
    target = { tenantId: 't', server: { type: 'mcp_stdio', command: 'yes' } };
    const before = cpuMs();
    const outcome = await flood({}, 0);
    const spentMs = cpuMs() - before;
    assert.equal(briefly(outcome), 'unreached server-start');
    assert.match(messageOf(outcome), /more requests or notifications of its own/);
    assert.ok(spentMs < 3000, `${spentMs} ms`);
  });
});
