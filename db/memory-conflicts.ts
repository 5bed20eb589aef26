/** Conflicts: approvals that belong to a memory fragment or entry instead of a run, and the mark on disputed entries. */
import { digestOf } from '../core/ids.ts';
import { LIMITS } from '../core/limits.ts';
import { newId } from '../lib/new-id.ts';
import type { Tx } from './database.ts';
import { insertNotice } from './notices.ts';

export type ConflictSubject = 'fragment' | 'memory';

interface NewConflict {
  tenantId: string;
  workspaceId: string;
  subjectType: ConflictSubject;
  subjectId: string;
  /** Both sides, and what they are versions of. */
  arguments: Record<string, unknown>;
  message: string;
}

/** Inserts an open one; returns its id. */
export async function insertConflict(tx: Tx, conflict: NewConflict): Promise<string> {
  const id = newId();
  await tx.query(
    `insert into approvals (id, tenant_id, workspace_id, subject_type, subject_id, kind, tool, arguments, digest, message, status,
        expires_at, created_at)
     values ($1, $2, $3, $4, $5, 'conflict', 'memory', $6::jsonb, $7, $8, 'pending', now() + $9 * interval '1 second', now())`,
    [
      id,
      conflict.tenantId,
      conflict.workspaceId,
      conflict.subjectType,
      conflict.subjectId,
      JSON.stringify(conflict.arguments),
      digestOf(conflict.arguments),
      conflict.message,
      LIMITS.approvalSeconds,
    ],
  );
  return id;
}

/** Notifies webhooks that people are asked. */
export async function tellAsked(
  tx: Tx,
  asked: Pick<NewConflict, 'tenantId' | 'workspaceId' | 'subjectType' | 'subjectId'> & { id: string },
): Promise<void> {
  const { tenantId, workspaceId, subjectType, subjectId, id } = asked;
  const about = { approval_id: id, [`${subjectType}_id`]: subjectId };
  const payload = { ...about, kind: 'conflict', tool: 'memory', expires_in_seconds: LIMITS.approvalSeconds };
  await insertNotice(tx, { tenantId, workspaceId, type: 'approval.requested', actor: 'system', payload });
}

export interface ConflictEnd {
  status: 'approved' | 'denied' | 'expired' | 'settled';
  decision?: string | undefined;
  reason?: string | undefined;
  decidedBy?: string | undefined;
  /** A person's replacement for both sides. */
  arguments?: Record<string, unknown> | undefined;
}

/** Ends an open conflict; false if it is not open any more. */
export async function endConflict(tx: Tx, id: string, end: ConflictEnd): Promise<boolean> {
  const rows = await tx.query(
    `update approvals set status = $2, decision = $3, reason = $4, decided_by = $5, decided_at = now(),
        original_arguments = case when $6::jsonb is null then original_arguments else arguments end,
        arguments = coalesce($6::jsonb, arguments)
      where id = $1 and kind = 'conflict' and run_id is null and status = 'pending' returning id`,
    [
      id,
      end.status,
      end.decision ?? null,
      end.reason ?? null,
      end.decidedBy ?? null,
      end.arguments ? JSON.stringify(end.arguments) : null,
    ],
  );
  return rows.length > 0;
}

/** Ids of open conflicts about a fragment or entry. */
export async function listOpenConflicts(tx: Tx, subjectId: string): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select id from approvals where subject_id = $1 and status = 'pending' order by id`,
    [subjectId],
  );
  return rows.map(({ id }) => id);
}

/** The id of the conflict in this version of a fragment. */
export async function findConflictAt(tx: Tx, of: { subjectId: string; version: number }): Promise<string | undefined> {
  const [row] = await tx.query<{ id: string }>(
    `select id from approvals where subject_id = $1 and kind = 'conflict' and arguments->>'version' = $2::text
      order by id desc limit 1`,
    [of.subjectId, String(of.version)],
  );
  return row?.id;
}

/** Ids of open conflicts with one of these entries on either side. */
export async function listOpenDisputes(tx: Tx, ids: readonly string[]): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select id from approvals where kind = 'conflict' and run_id is null and status = 'pending'
        and (subject_id = any($1::uuid[]) or arguments->>'conflicts_with' = any($2::text[])) order by id`,
    [ids, ids],
  );
  return rows.map(({ id }) => id);
}

/** Pairs of conflicting entries, each in both orders. */
const PAIRS = `select p.one, p.other from approvals a
    cross join lateral jsonb_array_elements_text(jsonb_build_array(a.arguments->'conflicts_with')
      || coalesce(a.arguments->'also_conflicts_with', '[]')) x (id)
    cross join lateral (values (a.subject_id, x.id::uuid), (x.id::uuid, a.subject_id)) p (one, other)
  where a.kind = 'conflict' and a.run_id is null and a.subject_type = 'memory' and a.arguments ? 'conflicts_with'`;

/** Removes the mark from entries that conflicted with entries now gone, unless they also contradict others. */
export async function undisputeMemories(tx: Tx, gone: readonly string[]): Promise<void> {
  await tx.query(
    `with pairs as materialized (${PAIRS})
     update memory_entries e set status = 'active', version = version + 1, updated_at = now()
      where e.status = 'disputed' and e.id <> all($1::uuid[]) and e.id in (select other from pairs where one = any($1::uuid[]))
        and not exists (select from pairs p join memory_entries o on o.id = p.other
          where p.one = e.id and o.status = 'disputed' and o.id <> all($1::uuid[]))`,
    [gone],
  );
}

interface LeftConflict {
  tenant_id: string;
  workspace_id: string;
  subject_id: string;
  arguments: Record<string, unknown>;
  status: 'pending' | 'expired';
  message: string;
  rest: [{ id: string; content: string }, ...{ id: string; content: string }[]];
}

/**
 * For conflicts whose older side is gone and whose newer side contradicts more entries: opens a new conflict about those,
 * since whoever decides must see both sides. Expired ones are replaced by expired ones, to keep a record of the contradiction.
 */
export async function askAboutRest(tx: Tx, gone: readonly string[]): Promise<void> {
  const left = await tx.query<LeftConflict>(
    `select a.tenant_id, a.workspace_id, a.subject_id, a.arguments, a.status, a.message,
        jsonb_agg(jsonb_build_object('id', e.id, 'content', e.content) order by x.place) as rest
       from approvals a join memory_entries own on own.id = a.subject_id and own.status = 'disputed'
         cross join lateral jsonb_array_elements_text(a.arguments->'also_conflicts_with') with ordinality x (id, place)
         join memory_entries e on e.id = x.id::uuid and e.status = 'disputed'
      where a.kind = 'conflict' and a.run_id is null and a.subject_type = 'memory' and a.status in ('pending', 'expired')
        and a.arguments->>'conflicts_with' = any($1::text[]) and own.id <> all($2::uuid[]) and e.id <> all($2::uuid[])
      group by a.id order by a.id`,
    [gone, gone],
  );
  for (const { arguments: asked, rest, ...conflict } of left) {
    const { also_conflicts_with: _also, ...sides } = asked;
    const [first, ...more] = rest;
    const also = more.length > 0 && { also_conflicts_with: more.map(({ id }) => id) };
    const args = { ...sides, ...also, conflicts_with: first.id, version_a: first.content };
    const { tenant_id: tenantId, workspace_id: workspaceId, subject_id: subjectId, status, message } = conflict;
    const of = { tenantId, workspaceId, subjectType: 'memory' as const, subjectId };
    const id = await insertConflict(tx, { ...of, arguments: args, message });
    if (status === 'expired') await endConflict(tx, id, { status });
    else await tellAsked(tx, { ...of, id });
  }
}

/** Deletes conflicts about forgotten fragments or entries: either side may quote them, even if a person has replaced both. */
export async function forgetConflicts(tx: Tx, ids: readonly string[]): Promise<void> {
  await askAboutRest(tx, ids);
  await tx.query(
    `delete from approvals where kind = 'conflict' and run_id is null
       and (subject_id = any($1::uuid[]) or coalesce(original_arguments, arguments)->>'conflicts_with' = any($2::text[]))`,
    [ids, ids],
  );
}

/** Marks entries as disputed. */
export async function disputeMemories(tx: Tx, ids: readonly string[]): Promise<void> {
  await tx.query(
    `update memory_entries set status = 'disputed', version = version + 1, updated_at = now()
      where id = any($1::uuid[]) and status = 'active'`,
    [ids],
  );
}
