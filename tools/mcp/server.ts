/** An MCP server in a tool's transport. */
import type { TransportTypes } from '../../core/tool.ts';
import type { SecretValues } from '../secret-values.ts';

declare module '../../core/tool.ts' {
  interface TransportTypes {
    mcp_stdio: {
      type: 'mcp_stdio';
      command: string;
      args?: string[] | undefined;
      env?: Record<string, string> | undefined;
      /** The tool's name at the server, if it differs from the registered one. */
      tool?: string | undefined;
    };
    mcp_http: RemoteMcp;
    mcp_sse: RemoteMcp;
  }
}

/** Streamable HTTP, and the older HTTP with SSE. */
interface RemoteMcp {
  type: 'mcp_http' | 'mcp_sse';
  endpoint: string;
  headers?: Record<string, string> | undefined;
  tool?: string | undefined;
}

export type McpTransport = TransportTypes['mcp_stdio' | 'mcp_http' | 'mcp_sse'];

/** A transport's server without the tool: equal ones are one server with one connection. */
export type McpServer = Omit<TransportTypes['mcp_stdio'], 'tool'> | Omit<RemoteMcp, 'tool'>;

/** The server of a tool, with `{{secret:name}}` not filled in. */
export function serverOf({ tool: _tool, ...server }: McpTransport): McpServer {
  return server;
}

/** A server's address without credentials: its endpoint, or its program and arguments. */
export function addressOf(server: McpServer): { type: string } & Record<string, unknown> {
  const { type } = server;
  return type === 'mcp_stdio'
    ? { type, command: server.command, args: server.args ?? [] }
    : { type, endpoint: server.endpoint };
}

/** The server with its secrets filled in. */
export function withSecrets(server: McpServer, { fill }: SecretValues): McpServer {
  const filled = (texts: Record<string, string> = {}) =>
    Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, fill(text)]));
  if (server.type === 'mcp_stdio') return { ...server, env: filled(server.env) };
  return { ...server, headers: filled(server.headers) };
}
