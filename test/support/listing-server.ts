import { startServer, type LocalServer } from './echo-server.ts';

/**
 * An MCP server over HTTP that can no more than an import needs. `listed` may change, which it says in the answer to each call;
 * while it is empty, the list is refused.
 */
export function startListingServer(listed: readonly unknown[]): Promise<LocalServer> {
  const serverInfo = { name: 'short', version: '1' };
  return startServer(({ method, body }, response) => {
    if (method !== 'POST') return response.writeHead(405).end();
    const { id, method: asked, params } = JSON.parse(body);
    if (id === undefined) return response.writeHead(202).end();
    if (asked === 'tools/call') {
      const notice = { jsonrpc: '2.0', method: 'notifications/tools/list_changed' };
      const answer = { jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: 'done' }] } };
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      return response.end([notice, answer].map((each) => `data: ${JSON.stringify(each)}\n\n`).join(''));
    }
    if (asked === 'tools/list' && listed.length === 0) return response.writeHead(503).end();
    const { protocolVersion } = params ?? {};
    const result =
      asked === 'initialize' ? { protocolVersion, capabilities: { tools: {} }, serverInfo } : { tools: listed };
    response.writeHead(200, { 'content-type': 'application/json' });
    return response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
  });
}
