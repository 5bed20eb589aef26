/** Tools of MCP servers (docs/tools.md): one connection pool for the three transports. */
import { z } from 'zod';
import type { ToolAttempt, ToolProgress } from '../../core/tool.ts';
import { redact, redactRemote } from '../redact.ts';
import type { McpCall } from '../mcp/call-tool.ts';
import type { McpClient } from '../mcp/open-client.ts';
import { addressOf, serverOf, withSecrets, type McpTransport } from '../mcp/server.ts';
import type { ServerKind, TransportCall, TransportKind, TransportRuntime } from '../transport-kind.ts';
import { endpoint, headers, shownText } from './fields.ts';

const env = z.record(
  z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,199}$/, 'is not the name of a variable'),
  shownText(32_000).refine((value) => !value.includes('\0'), 'has a NUL'),
);

/** A server that is started. */
const program = {
  command: z.string().min(1).max(1000),
  args: z.array(z.string().max(8000)).max(100).optional(),
  env: env.optional(),
};

/** A remote server. */
const remote = { endpoint, headers };

const tool = z.string().min(1).max(200).optional().describe("The tool's name at the server, where it is another.");

const servers: ServerKind<McpTransport> = {
  importSchemas: [
    z
      .strictObject({ type: z.literal('stdio'), ...program })
      .transform(({ args = [], env: variables = {}, ...rest }) => ({
        ...rest,
        args,
        env: variables,
        type: 'mcp_stdio' as const,
      })),
    z
      .strictObject({ type: z.literal('http'), ...remote })
      .describe('Streamable HTTP.')
      .transform((server) => ({ ...server, type: 'mcp_http' as const })),
    z
      .strictObject({ type: z.literal('sse'), ...remote })
      .describe('The older HTTP with SSE.')
      .transform((server) => ({ ...server, type: 'mcp_sse' as const })),
  ],
  identityOf: addressOf,
  locate: (transport, name) => ({ server: serverOf(transport), tool: transport.tool ?? name }),
};

export const MCP: TransportKind<McpTransport> = {
  schemas: {
    mcp_stdio: z.strictObject({ type: z.literal('mcp_stdio'), ...program, tool }),
    mcp_http: z.strictObject({ type: z.literal('mcp_http'), ...remote, tool }),
    mcp_sse: z.strictObject({ type: z.literal('mcp_sse'), ...remote, tool }),
  },
  secretTexts: (transport) => Object.values((transport.type === 'mcp_stdio' ? transport.env : transport.headers) ?? {}),
  destinationOf: (transport) => (transport.type === 'mcp_stdio' ? undefined : transport.endpoint),
  present(transport) {
    if (transport.type !== 'mcp_stdio') return { ...redactRemote(transport) };
    return { ...transport, ...(transport.env && { env: redact(transport.env, () => true) }) };
  },
  commandOf: (transport) => (transport.type === 'mcp_stdio' ? transport.command : undefined),
  servers,
  open(runtime) {
    let opened: Promise<McpClient> | undefined;
    const client = () =>
      (opened ??= import('../mcp/open-client.ts').then(({ openMcpClient }) => openMcpClient(runtime.egress)));
    return {
      call: async (call, attempt) => (await client()).call(mcpCall(call, attempt, runtime), redacting(call, attempt)),
      readResource: async (call, resource, attempt) =>
        (await client()).call({ ...mcpCall(call, attempt, runtime), resource }, redacting(call, attempt)),
      async listTools(wanted) {
        const { tenantId, server } = wanted;
        const onToolsChanged = () => runtime.onToolsChanged({ tenantId, server });
        return (await client()).list({ ...wanted, onToolsChanged });
      },
      close: async () => (await opened)?.close(),
    };
  },
};

function mcpCall(
  { tool: { name, output_schema: outputSchema }, transport, secrets }: TransportCall<McpTransport>,
  { tenantId }: ToolAttempt,
  runtime: TransportRuntime,
): McpCall {
  const server = serverOf(transport);
  const onToolsChanged = () => runtime.onToolsChanged({ tenantId, server });
  const { validateArguments } = runtime.validator;
  return {
    target: { tenantId, server: withSecrets(server, secrets), onToolsChanged },
    name: transport.tool ?? name,
    checkOutput: outputSchema && ((content: unknown) => validateArguments(outputSchema, content)),
  };
}

/** Removes secrets from reports of the call's progress. */
function redacting({ secrets }: TransportCall, attempt: ToolAttempt): ToolAttempt {
  const { onProgress } = attempt;
  return { ...attempt, onProgress: onProgress && ((progress: ToolProgress) => onProgress(secrets.redact(progress))) };
}
