/** The MCP servers that a tenant's tools are at, as the API shows them. */
import { notFound } from '../../core/errors.ts';
import type { Tx } from '../../db/database.ts';
import { findMcpServer, listMcpServers as readMcpServers, type McpServerRow } from '../../db/mcp-servers.ts';

export { readMcpServers };
export type { McpServerRow };

/** A server. Throws 404. */
export async function requireMcpServer(tx: Tx, id: string): Promise<McpServerRow> {
  const row = await findMcpServer(tx, id);
  if (!row) throw notFound('This MCP server');
  return row;
}
