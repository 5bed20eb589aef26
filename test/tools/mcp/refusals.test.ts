import assert from 'node:assert/strict';
import { createEgress } from '../../../tools/egress.ts';
import { createTools, type Tools } from '../../../tools/execute-tool.ts';
import { startServer, type LocalServer } from '../../support/echo-server.ts';
import { attemptOf, briefly, messageOf, toolOf } from '../../support/tool-attempt.ts';

const WANTED = /HTTP 401 and wants a credential that it takes in the `headers` of its transport/;

describe('An MCP server that refuses', () => {
  let tools: Tools;
  let server: LocalServer;
  let status: number;
  let said: string;
  let isConnected: boolean;
  beforeEach(async () => {
    [status, said, isConnected] = [401, '', false];
    server = await startServer(({ method, body }, response) => {
      const { id, method: asked = '', params } = method === 'POST' ? JSON.parse(body) : {};
      if (isConnected && asked.startsWith('notifications/')) return response.writeHead(202).end();
      if (isConnected && asked === 'initialize') {
        const { protocolVersion } = params;
        const result = { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'n', version: '1' } };
        response.setHeader('content-type', 'application/json');
        return response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
      }
      return response.writeHead(status, { 'www-authenticate': 'Bearer' }).end(said);
    });
    tools = createTools({ egress: createEgress({ allow: [], allowLoopback: true }), stdioCommands: [] });
  });
  afterEach(async () => {
    await tools.close();
    await server.close();
  });

  for (const type of ['mcp_http', 'mcp_sse'] as const) {
    it(`an import or a call for want of a login says so over ${type}, also without a word of its own`, async () => {
      const transport = { type, endpoint: server.url };
      await assert.rejects(tools.listTools('t', transport, false), WANTED);
      const outcome = await tools.execute(toolOf(transport), attemptOf({}));
      assert.match(messageOf(outcome), WANTED);
      assert.equal(briefly(outcome), 'error http-401');
    });
  }

  it('a call in a session that it has begun says so, too', async () => {
    isConnected = true;
    const transport = { type: 'mcp_http' as const, endpoint: server.url };
    await assert.rejects(tools.listTools('t', transport, false), WANTED);
    const outcome = await tools.execute(toolOf(transport), attemptOf({}));
    assert.match(messageOf(outcome), WANTED);
    assert.equal(briefly(outcome), 'error http-401');
  });

  it('for another reason is told with its status and its words', async () => {
    [status, said] = [418, 'I am a teapot.'];
    const transport = { type: 'mcp_http' as const, endpoint: server.url };
    await assert.rejects(tools.listTools('t', transport, false), /it answered with HTTP 418: I am a teapot\./);
  });
});
