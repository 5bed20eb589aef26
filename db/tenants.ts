import type { RateSettings } from '../core/rate-limits.ts';
import type { Tx } from './database.ts';

interface NewTenant {
  id: string;
  name: string;
  planTier?: string | undefined;
  settings?: TenantSettings | undefined;
}

export interface TenantSettings {
  rate_limits?: RateSettings | undefined;
  /** Maximum bytes of a file, and of all contents. */
  files?: { file_bytes?: number | undefined; total_bytes?: number | undefined } | undefined;
}

/** Takes the place of what it names; null in place of a group removes the group. */
export type TenantSettingsChange = { [Group in keyof TenantSettings]: TenantSettings[Group] | null };

export interface TenantRow {
  id: string;
  name: string;
  plan_tier: string;
  settings: TenantSettings;
  suspended: boolean;
  created_at: Date;
}

/** Inserts a tenant unless it exists. Runs as the tenant itself. */
export async function insertTenant(tx: Tx, tenant: NewTenant): Promise<void> {
  const { id, name, planTier = 'standard', settings = {} } = tenant;
  await tx.query(
    'insert into tenants (id, name, plan_tier, settings) values ($1, $2, $3, $4) on conflict (id) do nothing',
    [id, name, planTier, JSON.stringify(settings)],
  );
}

const TENANT = 'id, name, plan_tier, settings, suspended_by is not null as suspended, created_at';

/** Changes the tenant of the transaction; settings that are not named stay. Undefined if it does not exist. */
export async function changeTenant(
  tx: Tx,
  { planTier, settings = {} }: { planTier?: string | undefined; settings?: TenantSettingsChange | undefined },
): Promise<TenantRow | undefined> {
  const [row] = await tx.query<TenantRow>(
    `update tenants set plan_tier = coalesce($1, plan_tier),
       settings = settings - array(select key from jsonb_each($2)) || (
         select coalesce(jsonb_object_agg(key, coalesce(settings -> key, '{}') || value), '{}')
         from jsonb_each($2) where value <> 'null')
     returning ${TENANT}`,
    [planTier ?? null, JSON.stringify(settings)],
  );
  return row;
}

/** The tenant of the transaction. */
export async function findTenant(tx: Tx): Promise<TenantRow | undefined> {
  const [row] = await tx.query<TenantRow>(`select ${TENANT} from tenants`);
  return row;
}

/** The tenants that the transaction sees, newest first; before them the default one, whose id has no time. */
export async function listTenants(
  tx: Tx,
  { before, limit }: { before?: string | undefined; limit: number },
): Promise<TenantRow[]> {
  return tx.query<TenantRow>(
    `select ${TENANT} from tenants where $1::uuid is null or id < $1 order by id desc limit $2`,
    [before ?? null, limit],
  );
}

/** Inserts a workspace unless it exists. */
export async function insertWorkspace(tx: Tx, workspace: { id: string; tenantId: string; name: string }) {
  await tx.query('insert into workspaces (id, tenant_id, name) values ($1, $2, $3) on conflict (id) do nothing', [
    workspace.id,
    workspace.tenantId,
    workspace.name,
  ]);
}

/**
 * Runs a part of a transaction as another tenant. Only for acts that span two tenants: an operator's request that creates a
 * tenant, and its `Idempotency-Key`.
 */
export async function asOtherTenant<T>(tx: Tx, tenantId: string, work: () => Promise<T>): Promise<T> {
  const [own] = await tx.query<{ id: string }>("select current_setting('drover.tenant_id') as id");
  await tx.query("select set_config('drover.tenant_id', $1, true)", [tenantId]);
  const value = await work();
  await tx.query("select set_config('drover.tenant_id', $1, true)", [own?.id ?? '']);
  return value;
}

/** Whether a tenant exists, for a separate transaction. */
export async function hasTenant(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx.query('select 1 as found from tenants where id = $1', [id]);
  return rows.length > 0;
}

/** Whether the tenant has this workspace. */
export async function hasWorkspace(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx.query('select 1 as found from workspaces where id = $1', [id]);
  return rows.length > 0;
}

/** Ids of all tenants; for maintenance. */
export async function listTenantIds(tx: Tx): Promise<string[]> {
  const rows = await tx.query<{ id: string }>('select id from tenants order by id');
  return rows.map(({ id }) => id);
}
