import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { createEgress } from '../../../tools/egress.ts';
import { createTools, type Tools } from '../../../tools/execute-tool.ts';
import { startServer, type LocalServer, type SeenRequest } from '../../support/echo-server.ts';
import { attemptOf, briefly, messageOf, outputOf, toolOf } from '../../support/tool-attempt.ts';
import { waitUntil } from '../../support/wait-until.ts';

interface Rpc {
  id?: number;
  method: string;
  params?: { name?: string; protocolVersion?: string };
}

interface Refusal {
  status: number;
  message: string;
  code?: number;
}

describe('a server over Streamable HTTP that knows sessions', () => {
  let server: LocalServer;
  let tools: Tools;
  let session: string;
  let sessions: number;
  let refusal: Refusal;
  /** Answers to calls of `slow`. */
  let held: (() => void)[];

  beforeEach(async () => {
    sessions = 0;
    session = 'none';
    held = [];
    refusal = { status: 404, message: 'Session not found', code: -32_001 };
    server = await startServer((request, response) => {
      if (request.method !== 'POST') return response.writeHead(405).end();
      const rpc = JSON.parse(request.body) as Rpc;
      if (rpc.method === 'initialize') {
        sessions += 1;
        session = `session-${sessions}`;
      } else if (rpc.id === undefined) return response.writeHead(202).end();
      else if (request.headers['mcp-session-id'] !== session) return refuse(response, refusal);
      return answer(rpc, response);
    });
    tools = createTools({ egress: createEgress({ allow: [], allowLoopback: true }), stdioCommands: [] });
  });
  afterEach(async () => {
    await tools.close();
    await server.close();
  });

  const refuse = (response: ServerResponse, { status, message, code = -32_000 }: Refusal) =>
    response.writeHead(status).end(JSON.stringify({ jsonrpc: '2.0', error: { code, message }, id: null }));

  function answer({ id, method, params }: Rpc, response: ServerResponse) {
    const headers = {
      'content-type': 'application/json',
      ...(method === 'initialize' && { 'mcp-session-id': session }),
    };
    const send = (result: unknown) =>
      response.writeHead(200, headers).end(JSON.stringify({ jsonrpc: '2.0', id, result }));
    if (method === 'initialize') {
      const { protocolVersion } = params ?? {};
      return send({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'shop', version: '1' } });
    }
    if (method === 'tools/list') return send({ tools: [{ name: 'pay', inputSchema: { type: 'object' } }] });
    if (params?.name === 'pay')
      return refuse(response, { status: 400, message: 'booked, but the checkout session has expired' });
    if (params?.name === 'find') return refuse(response, { status: 404, message: 'there is no order 7' });
    const done = () => send({ content: [{ type: 'text', text: 'done' }] });
    return params?.name === 'slow' ? held.push(done) : done();
  }

  const place = () => ({ type: 'mcp_http' as const, endpoint: `${server.url}/mcp` });
  const call = (name: string) => tools.execute(toolOf(place(), name), attemptOf({}));
  const isCall = ({ body }: SeenRequest) => body.includes('tools/call');
  const restart = () => (session = 'none');

  for (const [status, message, code] of [
    [404, 'Session not found', -32_001],
    [400, 'Bad Request: No valid session ID provided', -32_000],
    [400, 'this session has ended', -32_001],
  ] as const) {
    it(`is introduced to again after a restart, and called once more, where it says ${status} ${message}`, async () => {
      refusal = { status, message, code };
      assert.equal(outputOf(await call('ok')), 'done');
      restart();
      assert.equal(outputOf(await call('ok')), 'done');
      assert.deepEqual([sessions, server.seen.filter(isCall).length], [2, 3]);
    });

    it(`is asked for its tools again after a restart, where it says ${status} ${message}`, async () => {
      refusal = { status, message, code };
      const names = async () => (await tools.listTools('tenant-1', place(), true)).map(({ name }) => name);
      assert.deepEqual(await names(), ['pay']);
      restart();
      assert.deepEqual(await names(), ['pay']);
      assert.equal(sessions, 2);
    });
  }

  it('answers 400 about a session of its own: the call was made, and is made no second time', async () => {
    const outcome = await call('pay');
    assert.equal(briefly(outcome), 'error http-400');
    assert.match(messageOf(outcome), /booked, but the checkout session has expired/);
    assert.deepEqual([sessions, server.seen.filter(isCall).length], [1, 1]);
  });

  it('refuses a call in a new session, too: the refusal is of the call, and in its own words', async () => {
    const outcome = await call('find');
    assert.equal(briefly(outcome), 'error http-404');
    assert.match(messageOf(outcome), /there is no order 7/);
    assert.equal(server.seen.filter(isCall).length, 2);
  });

  it('answers the calls that are on while it refuses another one', async () => {
    const slow = call('slow');
    await waitUntil('it is called', () => held.length === 1);
    assert.equal(briefly(await call('find')), 'error http-404');
    for (const done of held) done();
    assert.equal(outputOf(await slow), 'done');
    const isEnd = ({ method, headers }: SeenRequest) =>
      method === 'DELETE' && headers['mcp-session-id'] === 'session-1';
    await waitUntil('the session of that call is ended', () => server.seen.some(isEnd));
  });

  it('ends the calls that are on in a dropped session when the process ends', async () => {
    const slow = call('slow');
    await waitUntil('it is called', () => held.length === 1);
    await call('find');
    await tools.close();
    assert.equal(briefly(await slow), 'lost server-died');
  });
});
