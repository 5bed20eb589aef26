/** Servers of a tenant's tools, present and past, for all transports; the table is named after the first one. */
import type { Tx } from './database.ts';
import { fetchRows, selectFrom } from './query-builder.ts';

export interface ToolServerRow {
  id: string;
  /** Transport type, with its endpoint, or program and arguments. */
  address: { type: string } & Record<string, unknown>;
  suspended: boolean;
  created_at: Date;
  /** Registered tools currently at the server. */
  tools: { id: string; name: string }[];
}

const COLUMNS = `
  s.id, s.address, s.suspended_at is not null as suspended, s.created_at,
    coalesce((select jsonb_agg(jsonb_build_object('id', t.id, 'name', t.name) order by t.name)
      from tools t join tool_versions v on v.tool_id = t.id and v.version = t.current_version
      where t.status = 'registered' and v.definition->'transport' @> (s.address - 'args')
        and coalesce(v.definition->'transport'->'args', '[]') = coalesce(s.address->'args', '[]')), '[]') as tools`;

/** Inserts the server of a tool, unless it is known. */
export async function insertToolServer(
  tx: Tx,
  server: { id: string; tenantId: string; digest: string; address: ToolServerRow['address'] },
): Promise<void> {
  await tx.query(
    'insert into mcp_servers (id, tenant_id, digest, address) values ($1, $2, $3, $4::jsonb) on conflict do nothing',
    [server.id, server.tenantId, server.digest, JSON.stringify(server.address)],
  );
}

export async function findToolServer(tx: Tx, id: string): Promise<ToolServerRow | undefined> {
  const [row] = await tx.query<ToolServerRow>(`select ${COLUMNS} from mcp_servers s where s.id = $1`, [id]);
  return row;
}

/** The server with this digest of its address. */
export async function findToolServerAt(tx: Tx, digest: string): Promise<ToolServerRow | undefined> {
  const [row] = await tx.query<ToolServerRow>(`select ${COLUMNS} from mcp_servers s where s.digest = $1`, [digest]);
  return row;
}

/** Whether the server with this digest of its address is suspended. */
export async function isToolServerSuspended(tx: Tx, digest: string): Promise<boolean> {
  const rows = await tx.query('select 1 as found from mcp_servers where digest = $1 and suspended_at is not null', [
    digest,
  ]);
  return rows.length > 0;
}

/** A page of servers, newest first. */
export async function listToolServers(
  tx: Tx,
  page: { before?: string | undefined; limit: number },
): Promise<ToolServerRow[]> {
  const query = selectFrom(COLUMNS, 'mcp_servers s', [['s.id', '<', page.before]]);
  return fetchRows<ToolServerRow>(tx, query.orderBy('s.id', 'desc').limit(page.limit));
}
