/** Policies and their immutable versions. */
import type { PolicyDefinition } from '../core/policy.ts';
import type { Tx } from './database.ts';
import { fetchSizedPage, type Page } from './page-bytes.ts';
import { selectFrom } from './query-builder.ts';

/** A policy with its current version. */
export interface PolicyRow {
  id: string;
  version: number;
  definition: PolicyDefinition;
  created_at: Date;
  updated_at: Date;
}

interface PolicyVersionRow {
  version: number;
  definition: PolicyDefinition;
  created_at: Date;
}

interface NewVersion {
  id: string;
  tenantId: string;
  definition: PolicyDefinition;
  /** The key that wrote it. */
  keyId: string;
}

const COLUMNS = 'p.id, p.current_version as version, v.definition, p.created_at, p.updated_at';
const TABLES = 'policies p join policy_versions v on v.policy_id = p.id and v.version = p.current_version';

/** Inserts a policy with its first version; undefined if the name is taken. */
export async function insertPolicy(tx: Tx, policy: NewVersion): Promise<PolicyRow | undefined> {
  const made = await tx.query(
    `insert into policies (id, tenant_id, name, status, current_version) values ($1, $2, $3, 'active', 1)
     on conflict (tenant_id, name) where status = 'active' do nothing returning id`,
    [policy.id, policy.tenantId, policy.definition.name],
  );
  if (made.length === 0) return undefined;
  await insertVersion(tx, policy, 1);
  return findPolicy(tx, policy.id);
}

/** Adds a version and makes it current; undefined if another policy has its name. The caller must hold the policy's lock. */
export async function publishPolicyVersion(
  tx: Tx,
  policy: NewVersion & { version: number },
): Promise<PolicyRow | undefined> {
  const renamed = await tx.query(
    `update policies p set current_version = $2, name = $3, updated_at = now() where id = $1 and not exists
       (select from policies other where other.name = $3 and other.status = 'active' and other.id <> p.id) returning id`,
    [policy.id, policy.version, policy.definition.name],
  );
  if (renamed.length === 0) return undefined;
  await insertVersion(tx, policy, policy.version);
  return findPolicy(tx, policy.id);
}

async function insertVersion(tx: Tx, policy: NewVersion, version: number): Promise<void> {
  await tx.query(
    `insert into policy_versions (policy_id, version, tenant_id, definition, created_by) values ($1, $2, $3, $4::jsonb, $5)`,
    [policy.id, version, policy.tenantId, JSON.stringify(policy.definition), policy.keyId],
  );
}

export async function findPolicy(tx: Tx, id: string): Promise<PolicyRow | undefined> {
  const [row] = await tx.query<PolicyRow>(`select ${COLUMNS} from ${TABLES} where p.status = 'active' and p.id = $1`, [
    id,
  ]);
  return row;
}

export async function countPolicies(tx: Tx): Promise<number> {
  const [row] = await tx.query<{ count: number }>(`select count(*) as count from policies where status = 'active'`);
  return row?.count ?? 0;
}

/** A page of policies, newest first. */
export async function listPolicies(
  tx: Tx,
  page: { before?: string | undefined; limit: number },
): Promise<Page<PolicyRow>> {
  const query = selectFrom(`${COLUMNS}, json_bytes(v.definition) as bytes`, TABLES, [
    ['p.status', '=', 'active'],
    ['p.id', '<', page.before],
  ]);
  return fetchSizedPage<PolicyRow>(tx, query, { order: 'id desc', limit: page.limit });
}

/** A page of a policy's versions, newest first. */
export async function listPolicyVersions(
  tx: Tx,
  id: string,
  page: { before?: number | undefined; limit: number },
): Promise<Page<PolicyVersionRow>> {
  const query = selectFrom('version, definition, created_at, json_bytes(definition) as bytes', 'policy_versions', [
    ['policy_id', '=', id],
    ['version', '<', page.before],
  ]);
  return fetchSizedPage<PolicyVersionRow>(tx, query, { order: 'version desc', limit: page.limit });
}

/** Deletes a policy: it no longer applies; its versions stay for decisions that refer to them. */
export async function deletePolicy(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx.query(
    `update policies set status = 'deleted', updated_at = now() where id = $1 and status = 'active' returning id`,
    [id],
  );
  return rows.length > 0;
}
