/** Reads the servers of a tenant's tools for the API. */
import { notFound } from '../../core/errors.ts';
import type { Tx } from '../../db/database.ts';
import { findToolServer, listToolServers as readToolServers, type ToolServerRow } from '../../db/tool-servers.ts';

export { readToolServers };
export type { ToolServerRow };

/** A server. Throws 404. */
export async function requireToolServer(tx: Tx, id: string): Promise<ToolServerRow> {
  const row = await findToolServer(tx, id);
  if (!row) throw notFound('This server');
  return row;
}
