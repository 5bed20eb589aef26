/**
 * Suspension of tenants, agents, tools and tool servers. Callers that change it must advance the policy epoch first
 * (`advancePolicyEpoch`).
 */
import type { Tx } from './database.ts';

export interface SuspensionChange {
  /** False if it already was in that state. */
  changed: boolean;
  /** Suspended by the operator, who alone may lift it; nothing was changed. */
  held: boolean;
}

/** Expression for what suspends an unfinished run `r`: `tenant`, `agent` or null. */
export const SUSPENDED_BY = `case when r.status in ('completed', 'failed', 'cancelled') then null
  when (select n.suspended_by from tenants n where n.id = r.tenant_id) is not null then 'tenant'
  when (select n.suspended_at from agents n where n.id = r.agent_id) is not null then 'agent' end`;

/** Undefined if the workspace has no such agent. */
export async function suspendAgent(
  tx: Tx,
  { id, suspended, workspaceId }: { id: string; suspended: boolean; workspaceId: string },
): Promise<SuspensionChange | undefined> {
  const [row] = await tx.query<{ was: boolean }>(
    `update agents a set suspended_at = case when $2 then coalesce(a.suspended_at, now()) end
     from (select id, suspended_at from agents where id = $1 and workspace_id = $3 for update) old
     where a.id = old.id returning old.suspended_at is not null as was`,
    [id, suspended, workspaceId],
  );
  return row && { changed: row.was !== suspended, held: false };
}

/** Undefined if the tool does not exist. */
export async function suspendTool(
  tx: Tx,
  { id, suspended }: { id: string; suspended: boolean },
): Promise<SuspensionChange | undefined> {
  const [row] = await tx.query<{ was: boolean }>(
    `update tools t set suspended_at = case when $2 then coalesce(t.suspended_at, now()) end
     from (select id, suspended_at from tools where id = $1 and status = 'registered' for update) old
     where t.id = old.id returning old.suspended_at is not null as was`,
    [id, suspended],
  );
  return row && { changed: row.was !== suspended, held: false };
}

/** Undefined if the server does not exist. */
export async function suspendToolServer(
  tx: Tx,
  { id, suspended }: { id: string; suspended: boolean },
): Promise<SuspensionChange | undefined> {
  const [row] = await tx.query<{ was: boolean }>(
    `update mcp_servers s set suspended_at = case when $2 then coalesce(s.suspended_at, now()) end
     from (select id, suspended_at from mcp_servers where id = $1 for update) old
     where s.id = old.id returning old.suspended_at is not null as was`,
    [id, suspended],
  );
  return row && { changed: row.was !== suspended, held: false };
}

/** Suspends the transaction's tenant, or lifts it; undefined if the tenant does not exist. */
export async function suspendTenant(
  tx: Tx,
  { suspended, by }: { suspended: boolean; by: 'operator' | 'tenant' },
): Promise<SuspensionChange | undefined> {
  const [now] = await tx.query<{ by: string | null }>('select suspended_by as by from tenants for update');
  if (!now) return undefined;
  if (by === 'tenant' && now.by === 'operator') return { changed: false, held: !suspended };
  await tx.query('update tenants set suspended_by = $1', [suspended ? by : null]);
  return { changed: (now.by !== null) !== suspended, held: false };
}

const MOST_DRIVEN = 1000;

/** The tenant's runs that are being driven at this moment. */
export async function listDrivenRuns(tx: Tx): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select id from runs where status in ('created', 'initializing', 'planning', 'executing', 'reflecting')
       and driver_lease_expires_at > clock_timestamp() limit ${MOST_DRIVEN}`,
  );
  return rows.map(({ id }) => id);
}
