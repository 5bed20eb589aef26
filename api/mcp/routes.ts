/** `/mcp`: Drover's agents as tools of an MCP server, over Streamable HTTP. */
import { Readable } from 'node:stream';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { z } from 'zod';
import { DroverError, forbidden } from '../../core/errors.ts';
import { requestRates } from '../../core/rate-limits.ts';
import { newId } from '../../lib/new-id.ts';
import { isFromKnownOrigin } from '../kit/cors.ts';
import { rpcId } from '../kit/json-rpc-body.ts';
import { holdMoreToRates } from '../kit/rate-limit.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import type { ApiContext } from '../kit/state.ts';
import { untilEnded } from '../runs/answer-turn.ts';
import { checkParams } from './check-params.ts';
import { createMcpServer } from './server.ts';

const message = z.looseObject({ jsonrpc: z.literal('2.0'), id: rpcId.optional(), method: z.string().optional() });

const post = defineRoute({
  method: 'post',
  path: '/mcp',
  access: 'runs:write',
  summary: "A message to Drover's MCP server (Streamable HTTP): agents are tools",
  jsonRpc: true,
  body: z.union([message, z.array(message).min(1).max(100)]),
  responses: {
    200: { contentType: 'text/event-stream', description: 'The answer, and what is told before it.' },
    202: 'empty',
  },
  async handle({ caller, body, context, app, ctx }) {
    // Required by MCP whatever the key (Streamable HTTP, security warning).
    if (!isFromKnownOrigin(ctx.get('origin'), context.config.corsOrigins))
      throw forbidden('Pages of this origin may not call the MCP server: DROVER_CORS_ORIGINS does not list it.');
    const session = ctx.get('mcp-session-id') || undefined;
    const gone = untilEnded({ ctx, app, caller, context });
    const [, ...others] = [body].flat();
    // The first message was counted with the request.
    if (others.length > 0)
      await holdMoreToRates(ctx, app.counter, { rates: requestRates(caller), times: others.length });
    const server = createMcpServer({
      context,
      caller,
      traceparent: ctx.state.traceparent,
      replaced: ctx.state.replaced,
      session,
      gone,
      isAlone: others.length === 0,
    });
    const transport = new WebStandardStreamableHTTPServerTransport({});
    await server.connect(transport);
    checkParams(transport);
    gone.addEventListener('abort', () => void server.close().catch(() => undefined), { once: true });
    const response = await transport.handleRequest(requestOf(ctx), { parsedBody: body });
    if (response.status >= 400) throw await problemOf(response);
    const isStart = [body].flat().some(({ method }) => method === 'initialize');
    const headers = Object.fromEntries([...response.headers].filter(([name]) => name === 'content-type'));
    return {
      status: response.status,
      headers: { ...headers, ...(isStart && { 'mcp-session-id': newId() }) },
      ...(response.body && response.status === 200 && { body: Readable.fromWeb(response.body) }),
    };
  },
});

/** A request for the transport, which reads only method and headers: the body is parsed already. */
function requestOf(ctx: ApiContext): Request {
  const headers = ['accept', 'content-type', 'mcp-protocol-version'].map((name): [string, string] => [
    name,
    ctx.get(name),
  ]);
  const present = headers.filter(([, value]) => value !== '');
  return new Request(new URL(ctx.path, 'http://localhost'), { method: ctx.method, headers: present });
}

/** Turns a refusal by the transport into a problem. */
async function problemOf(response: Response): Promise<DroverError> {
  const said = z
    .object({ error: z.object({ message: z.string() }) })
    .safeParse(await response.json().catch(() => null));
  const detail = said.success ? said.data.error.message : 'This is no message that can be answered.';
  return new DroverError('bad-request', response.status, detail);
}

export const MCP_ROUTES: readonly Route[] = [post];
