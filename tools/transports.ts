/** The tool transports: a new one is a file in `tools/transports/` and a line here (docs/extending.md). */
import type { ToolDefinition, ToolTransport } from '../core/tool.ts';
import { redactEndpoint } from './redact.ts';
import type { ServerIdentity, TransportKind } from './transport-kind.ts';
import { A2A } from './transports/a2a.ts';
import { BUILTIN, CLIENT } from './transports/builtin.ts';
import { HTTP } from './transports/http.ts';
import { MCP } from './transports/mcp.ts';

export const TRANSPORTS: readonly TransportKind[] = [HTTP, A2A, MCP, BUILTIN, CLIENT];

const BY_TYPE: ReadonlyMap<string, TransportKind> = new Map(
  TRANSPORTS.flatMap((kind) => Object.keys(kind.schemas).map((type) => [type, kind] as const)),
);

/** A transport's kind; undefined for a type that this process does not know. */
export function kindOf({ type }: ToolTransport): TransportKind | undefined {
  return BY_TYPE.get(type);
}

/** The address of a tool's server without credentials; undefined if it has none. */
export function identityOf(transport: ToolTransport): ServerIdentity | undefined {
  return kindOf(transport)?.servers?.identityOf(transport);
}

/** A server's address as answers show it: an imported endpoint may have a credential in its query. */
export function presentServer(server: ServerIdentity): ServerIdentity {
  const { endpoint } = server;
  return typeof endpoint === 'string' ? { ...server, endpoint: redactEndpoint(endpoint) } : server;
}

/** A tool's server, and the tool's name there; undefined if it has none. */
export function locateTool({
  name,
  transport,
}: Pick<ToolDefinition, 'name' | 'transport'>): { server: ToolTransport; tool: string } | undefined {
  return kindOf(transport)?.servers?.locate(transport, name);
}

/** The URL that receives a transport's secrets; undefined for no host. */
export function destinationOf(transport: ToolTransport): string | undefined {
  return kindOf(transport)?.destinationOf?.(transport);
}

/** The command that a transport starts on the worker's machine; undefined if it starts none. */
export function commandOf(transport: ToolTransport): string | undefined {
  return kindOf(transport)?.commandOf?.(transport);
}
