/** Checks for contradictions that models still have to make, and the texts that they compare. */
import type { Tx } from './database.ts';
import { LIVE } from './memory-entries.ts';
import type { ConflictSubject } from './memory-conflicts.ts';

/** Live entries of an agent that share most words with one; among equal ones the newest first. */
export async function findLikeWords(
  tx: Tx,
  of: { ownerId: string; id: string | null; text: string; limit: number },
): Promise<{ id: string; shared: number }[]> {
  return tx.query(likeWords({ text: '$3', notId: '$2::uuid', limit: '$4' }), [of.ownerId, of.id, of.text, of.limit]);
}

/** A query for entries of the owner `$1` by shared words with a text, given as SQL expressions. */
function likeWords(of: { text: string; notId: string; limit: string }): string {
  return `with asked as materialized (
      select left(lexeme, 100) as term from unnest(to_tsvector('english', left(${of.text}, 2000))) limit 40)
    select p.entry_id as id, count(*)::int as shared from asked cross join lateral (
       select entry_id from memory_terms where owner_id = $1 and term = asked.term order by entry_id desc limit 200) p
     where ${of.notId} is null or p.entry_id <> ${of.notId}
     group by p.entry_id order by shared desc, p.entry_id desc limit ${of.limit}`;
}

/** An entry, and another one to compare it with. */
interface ComparedPair {
  entry: string;
  content: string;
  other: string;
  other_content: string;
}

/**
 * Pairs each of these entries with up to `limit` others that share most words: live, in force, valid at a common time, and of
 * the same user or of none. Ordered by id, then newest first.
 */
export async function listComparedTexts(
  tx: Tx,
  of: { agentId: string; ids: readonly string[]; limit: number },
): Promise<ComparedPair[]> {
  return tx.query(
    `select own.id as entry, own.content, e.id as other, e.content as other_content from memory_entries own
       cross join lateral (${likeWords({ text: 'own.content', notId: 'own.id', limit: '$3' })}) l
       join memory_entries e on e.id = l.id
      where own.id = any($2::uuid[]) and own.agent_id = $1 and own.${LIVE} and e.${LIVE} and (e.expires_at is null or e.expires_at > now())
        and (e.valid_to is null or e.valid_to > now())
        and (own.valid_to is null or own.valid_to > coalesce(e.valid_from, e.created_at))
        and coalesce(e.metadata->>'user_id' = own.metadata->>'user_id', true) order by own.id, e.id desc`,
    [of.agentId, of.ids, of.limit],
  );
}

/** Schedules a model's check of entries or fragments for after the commit. */
export async function insertChecks(
  tx: Tx,
  of: { tenantId: string; subjectType: ConflictSubject; subjectIds: readonly string[]; ownerId: string },
): Promise<void> {
  await tx.query(
    `insert into memory_checks (subject_id, tenant_id, subject_type, owner_id) select id, $2, $3, $4 from unnest($1::uuid[]) id
     on conflict (subject_id) do update set due_at = now(), attempts = 0`,
    [of.subjectIds, of.tenantId, of.subjectType, of.ownerId],
  );
}

interface DueCheck {
  subject_id: string;
  subject_type: ConflictSubject;
  owner_id: string;
  attempts: number;
}

/** A check that is still due; with `lock`, locked until the transaction ends, to be finished. */
export async function findCheck(tx: Tx, subjectId: string, lock = false): Promise<DueCheck | undefined> {
  const [row] = await tx.query<DueCheck>(
    `select subject_id, subject_type, owner_id, attempts from memory_checks where subject_id = $1${lock ? ' for update' : ''}`,
    [subjectId],
  );
  return row;
}

/** Deletes a finished check. */
export async function deleteCheck(tx: Tx, subjectId: string): Promise<void> {
  await tx.query('delete from memory_checks where subject_id = $1', [subjectId]);
}

/** Postpones a check, since no model was available. */
export async function delayCheck(tx: Tx, subjectId: string, waitSeconds: number): Promise<void> {
  await tx.query(
    `update memory_checks set attempts = attempts + 1, due_at = now() + $2 * interval '1 second' where subject_id = $1`,
    [subjectId, waitSeconds],
  );
}
