/** Approvals, plans and decisions of policies, as tests read and change them. */
import { newId } from '../../../lib/new-id.ts';
import type { Database } from '../../../db/database.ts';
import { row, rows, rowsAsOwner, tamper, type Owner, type Tenant } from './access.ts';

/** In the order in which they were asked for. */
export function approvalsOfRun<R extends object = { id: string; status: string }>(
  tenant: Tenant,
  run: string,
): Promise<R[]> {
  return rows<R>(tenant, 'select * from approvals where run_id = $1 order by id', run);
}

interface PendingApproval {
  id: string;
  kind: string;
  tool: string;
  tool_call_id: string | null;
  plan_id: string | null;
  arguments: Record<string, unknown>;
}

/** Those that nobody has decided yet. */
export function pendingApprovals(tenant: Tenant, run: string): Promise<PendingApproval[]> {
  const sql = `select id, kind, tool, tool_call_id, plan_id, arguments from approvals where run_id = $1 and status = 'pending' order by id`;
  return rows(tenant, sql, run);
}

/** All that is stored of a run's only approval, but when it expires. */
export async function wholeApproval(tenant: Tenant, run: string): Promise<{ id: string; status: string }> {
  const sql = `select to_jsonb(a) - 'expires_at' as approval from approvals a where run_id = $1`;
  return (await row<{ approval: { id: string; status: string } }>(tenant, sql, run)).approval;
}

/** Of all approvals, by the time at which they expire. */
export async function statusesOfApprovals(tenant: Tenant): Promise<string[]> {
  const found = await rows<{ status: string }>(tenant, 'select status from approvals order by expires_at');
  return found.map(({ status }) => status);
}

/** Approvals that are about entries of memory. */
export async function memoryConflicts(db: Pick<Database, 'asOwner'>): Promise<object[]> {
  return rowsAsOwner(db, `select arguments from approvals where subject_type = 'memory'`);
}

/** The entry that the only conflict in an agent's memory is about. */
export async function subjectOfConflict(tenant: Tenant, agent: string): Promise<string> {
  const sql = `select subject_id from approvals where arguments->>'agent_id' = $1`;
  return (await row<{ subject_id: string }>(tenant, sql, agent)).subject_id;
}

/** As if the time to decide on every open approval had passed. */
export async function expireApprovals(db: Pick<Database, 'asOwner'>): Promise<void> {
  await rowsAsOwner(db, `update approvals set expires_at = now() - interval '1 second' where status = 'pending'`);
}

/** As if it had passed a minute ago for those of one run. */
export function expireApprovalsOf(owner: Owner, run: string): Promise<void> {
  return tamper(owner, `update approvals set expires_at = now() - interval '1 minute' where run_id = $1`, run);
}

/** A copy of a run's approval that is due before it and whose run is not there. */
export function addApprovalWithoutRun(owner: Owner, like: string): Promise<void> {
  return tamper(
    owner,
    `insert into approvals (id, tenant_id, run_id, turn_id, kind, tool, arguments, digest, status, expires_at, created_at)
       select $2, tenant_id, $3, turn_id, kind, tool, arguments, digest, status, expires_at - interval '1 day', created_at
       from approvals where run_id = $1`,
    like,
    newId(),
    newId(),
  );
}

/** As if nobody had decided on what was denied. */
export function reopenDenied(owner: Owner): Promise<void> {
  return tamper(owner, `update approvals set status = 'pending', decided_at = null where status = 'denied'`);
}

/** As if each approval of a run were for arguments of 1,500,000 characters. */
export function makeApprovalsLarge(owner: Owner, run: string): Promise<void> {
  return tamper(
    owner,
    `update approvals set arguments = jsonb_build_object('text', repeat('x', 1500000)) where run_id = $1`,
    run,
  );
}

export function loseApprovals(owner: Owner, run: string): Promise<void> {
  return tamper(owner, 'delete from approvals where run_id = $1', run);
}

/** In the order in which they were proposed. */
export function batchesOfRun<R extends object>(tenant: Tenant, run: string): Promise<R[]> {
  return rows<R>(tenant, 'select * from plans where run_id = $1 order by step', run);
}

interface StoredDecision {
  decision: string;
  stage: string;
  policy_id: string | null;
  policy_version: number | null;
  reason: string;
}

/** What the gate has decided on the calls of a run. */
export function decisionsOfRun(tenant: Tenant, run: string): Promise<StoredDecision[]> {
  const sql = 'select decision, stage, policy_id, policy_version, reason from policy_decisions where run_id = $1';
  return rows(tenant, sql, run);
}
