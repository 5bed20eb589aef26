/** Tools of MCP servers (docs/tools.md). */
import { z } from 'zod';
import type { ToolAttempt, ToolOutcome, ToolProgress, TransportTypes } from '../../core/tool.ts';
import { redact, isCredential } from '../redact.ts';
import { callMcpTool } from '../mcp/call-tool.ts';
import { serverOf, withSecrets, type McpTransport } from '../mcp/server.ts';
import type { TransportCall, TransportKind, TransportRuntime } from '../transport-kind.ts';
import { endpoint, headers, shownText } from './fields.ts';

const env = z.record(
  z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,199}$/, 'is not the name of a variable'),
  shownText(32_000).refine((value) => !value.includes('\0'), 'has a NUL'),
);

/** How a server is started. */
export const program = {
  command: z.string().min(1).max(1000),
  args: z.array(z.string().max(8000)).max(100).optional(),
  env: env.optional(),
};

/** Where a server is. */
export const remote = { endpoint, headers };

const tool = z.string().min(1).max(200).optional().describe("The tool's name at the server, where it is another.");

export const MCP_STDIO: TransportKind<TransportTypes['mcp_stdio']> = {
  type: 'mcp_stdio',
  schema: z.strictObject({ type: z.literal('mcp_stdio'), ...program, tool }),
  secretTexts: (transport) => Object.values(transport.env ?? {}),
  present: (transport) => ({ ...transport, ...(transport.env && { env: redact(transport.env, () => true) }) }),
  call: callMcp,
};

type RemoteTransport = TransportTypes['mcp_http' | 'mcp_sse'];

const overHttp = {
  secretTexts: (transport: RemoteTransport) => Object.values(transport.headers ?? {}),
  present: (transport: RemoteTransport) => ({
    ...transport,
    ...(transport.headers && { headers: redact(transport.headers, isCredential) }),
  }),
  call: callMcp,
};

export const MCP_HTTP: TransportKind<RemoteTransport> = {
  type: 'mcp_http',
  schema: z.strictObject({ type: z.literal('mcp_http'), ...remote, tool }),
  ...overHttp,
};

export const MCP_SSE: TransportKind<RemoteTransport> = {
  type: 'mcp_sse',
  schema: z.strictObject({ type: z.literal('mcp_sse'), ...remote, tool }),
  ...overHttp,
};

function callMcp(
  { tool: { name, output_schema: outputSchema }, transport, secrets }: TransportCall<McpTransport>,
  attempt: ToolAttempt,
  { mcp }: TransportRuntime,
): Promise<ToolOutcome> {
  const { tenantId, onProgress } = attempt;
  const server = serverOf(transport);
  const onToolsChanged = () => mcp.relist({ tenantId, server });
  const target = { tenantId, server: withSecrets(server, secrets), onToolsChanged };
  const redacted = onProgress && ((progress: ToolProgress) => onProgress(secrets.redact(progress)));
  const call = { target, name: transport.tool ?? name, outputSchema };
  return callMcpTool(call, { ...attempt, onProgress: redacted }, mcp.pool);
}
