/** A tenant's policies, deleted tools and suspensions. Always current, whatever a run has pinned. */
import type { PolicyDefinition } from '../core/policy.ts';
import { resultOf, type Database, type Tx } from './database.ts';

interface GovernanceRow {
  epoch: number;
  tenant: { id: string; name: string; plan_tier: string };
  policies: { id: string; version: number; definition: PolicyDefinition }[];
  deleted_tools: string[];
  suspended: { tenant: boolean; agents: string[]; tools: string[]; servers: string[] };
}

/** The policy epoch of the transaction's tenant. */
export async function readPolicyEpoch(tx: Tx): Promise<number> {
  const [row] = await tx.query<{ epoch: number }>('select policy_epoch as epoch from tenants');
  return row?.epoch ?? 0;
}

/** The tenant's governance, in one statement, so that epoch and content match. */
export async function readGovernance(tx: Tx): Promise<GovernanceRow> {
  const [row] = await tx.query<GovernanceRow>(`
    select t.policy_epoch as epoch,
      jsonb_build_object('id', t.id, 'name', t.name, 'plan_tier', t.plan_tier) as tenant,
      (select coalesce(jsonb_agg(jsonb_build_object('id', p.id, 'version', v.version, 'definition', v.definition)), '[]')
         from policies p join policy_versions v on v.policy_id = p.id and v.version = p.current_version
         where p.status = 'active') as policies,
      (select coalesce(jsonb_agg(id), '[]') from tools where status = 'deleted') as deleted_tools,
      jsonb_build_object('tenant', t.suspended_by is not null,
        'agents', (select coalesce(jsonb_agg(id), '[]') from agents where suspended_at is not null),
        'tools', (select coalesce(jsonb_agg(id), '[]') from tools where suspended_at is not null),
        'servers', (select coalesce(jsonb_agg(digest), '[]') from mcp_servers where suspended_at is not null)) as suspended
    from tenants t`);
  if (!row) throw new Error('the tenant has no row');
  return row;
}

/**
 * Invalidates all processes' caches of policies, suspensions, agents and tools. Call it first in the transaction of the
 * change, so that two changes wait for each other. A commit under way may still complete with the previous epoch
 * (`listWriters`).
 */
export async function advancePolicyEpoch(tx: Tx): Promise<void> {
  await tx.query('update tenants set policy_epoch = policy_epoch + 1');
}

/**
 * Makes a transaction one of the writers that `listWriters` finds; to be called before reading what its decisions depend on.
 * `for update` and `commit_run` have the same effect.
 */
export async function becomeWriter(tx: Tx): Promise<void> {
  await tx.query('select pg_current_xact_id()');
}

/**
 * Transactions under way, of any process, that have an id and have read `tenants`. Each commit that begins calls is among them
 * before it reads the policy epoch, until it ends. So a commit not listed after an epoch has advanced has ended or will read
 * the new epoch, since a statement's snapshot is taken at its beginning.
 * Not `pg_snapshot_xmin`, which also waits for writers of the server's other databases, and for any long transaction of this
 * one.
 */
export async function listWriters(db: Database): Promise<string[]> {
  return resultOf(
    await db.call<{ result: string[] }>({
      name: 'list_writers',
      text: `select coalesce(array_agg(distinct w.virtualtransaction), '{}') as result from pg_locks w
        where w.locktype = 'transactionid' and w.mode = 'ExclusiveLock' and w.granted and w.virtualtransaction in (
          select r.virtualtransaction from pg_locks r where r.locktype = 'relation' and r.relation = 'tenants'::regclass
            and r.database = (select oid from pg_database where datname = current_database()))`,
      values: [],
    }),
  );
}

/** Whether one of these transactions is still running. */
export async function isAnyUnderWay(db: Database, transactions: readonly string[]): Promise<boolean> {
  return resultOf(
    await db.call<{ result: boolean }>({
      name: 'is_any_under_way',
      text: 'select exists (select from pg_locks where virtualtransaction = any($1::text[])) as result',
      values: [transactions],
    }),
  );
}
