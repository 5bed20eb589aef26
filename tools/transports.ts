/** The tool transports that there are: a new one is a file in `tools/transports/` and a line here (docs/extending.md). */
import type { ToolTransport } from '../core/tool.ts';
import type { TransportKind } from './transport-kind.ts';
import { BUILTIN, CLIENT } from './transports/builtin.ts';
import { HTTP } from './transports/http.ts';
import { MCP_HTTP, MCP_SSE, MCP_STDIO } from './transports/mcp.ts';

export const TRANSPORTS: readonly [TransportKind, ...TransportKind[]] = [
  HTTP,
  MCP_STDIO,
  MCP_HTTP,
  MCP_SSE,
  BUILTIN,
  CLIENT,
];

/** What there is for a transport; undefined for a type that this process does not know. */
export function kindOf({ type }: ToolTransport): TransportKind | undefined {
  return TRANSPORTS.find((kind) => kind.type === type);
}
