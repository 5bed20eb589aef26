/** Checks for contradictions that models still have to make, and the texts that they compare. */
import type { Tx } from './database.ts';
import { LIVE } from './memory-entries.ts';
import type { ConflictSubject } from './memory-conflicts.ts';
import { VISIBLE, type FragmentRow } from './memory-fragments.ts';
import { POSTINGS } from './memory-postings.ts';

/** Of all words together, from the rarest on, the entries considered; then those that are held against the text. */
const MOST_POSTINGS = 3000;
const CANDIDATES = 200;

/**
 * A query for entries of the owner `$1` that share most words with a text, among those that `join` lets through; among equal
 * ones the newest first. `text`, `notId` and `limit` are SQL expressions; `join` begins with the table that `found.id` is of.
 */
function likeWords(of: { text: string; notId: string; limit: string; join: string }): string {
  const postings = `from memory_terms where owner_id = $1 and term = asked.term and entry_id is distinct from ${of.notId}`;
  return `with asked as materialized (
      select left(lexeme, 100) as term from unnest(to_tsvector('english', split_words(left(${of.text}, 2000)))) limit 40),
    counted as materialized (select term, sum(p.size) over (order by p.size, term) as read from asked cross join lateral (
      select count(*) as size from (select ${postings} limit ${POSTINGS}) p) p),
    found as materialized (select p.entry_id as id, count(*) as shared from counted asked cross join lateral (
      select entry_id ${postings} order by entry_id desc limit ${POSTINGS}) p where asked.read <= ${MOST_POSTINGS} group by p.entry_id),
    compared as materialized (select found.id from found join ${of.join} order by found.shared desc, found.id desc limit ${CANDIDATES})
    select c.id, count(*)::int as shared from compared c join memory_terms t on t.owner_id = $1 and t.entry_id = c.id
        and t.term in (select term from asked)
     group by c.id order by shared desc, c.id desc limit ${of.limit}`;
}

/** What decides who sees a fragment, and for how long. */
export type Kept = Pick<
  FragmentRow,
  'visibility' | 'allowed_agents' | 'denied_agents' | 'expires_at' | 'retention_policy' | 'requires_resolution'
>;

/**
 * Fragments of a space that share most words with one (`id` if it is stored): those that its writer may see and that it may be
 * joined with, by the rule of `mayJoin`.
 */
export async function findLikeFragments(
  tx: Tx,
  of: { spaceId: string; id: string | null; text: string; limit: number },
  fragment: Kept & Pick<FragmentRow, 'created_by_agent'>,
): Promise<string[]> {
  if (fragment.visibility === 'private' || fragment.requires_resolution) return [];
  const mayJoin = `f.visibility <> 'private' and not f.requires_resolution and f.allowed_agents @> $6::text[] and f.allowed_agents <@ $6
    and f.denied_agents @> $7::text[] and f.denied_agents <@ $7 and case when $8::timestamptz is null then f.expires_at is null
      else f.retention_policy is not distinct from $9 and f.expires_at <= $8 end`;
  const join = `memory_fragments f on f.id = found.id and (f.expires_at is null or f.expires_at > now()) and ($2::text is null or ${VISIBLE})
    and ${mayJoin}`;
  const rows = await tx.query<{ id: string }>(likeWords({ text: '$4', notId: '$3::uuid', limit: '$5', join }), [
    of.spaceId,
    fragment.created_by_agent,
    of.id,
    of.text,
    of.limit,
    fragment.allowed_agents,
    fragment.denied_agents,
    fragment.expires_at,
    fragment.retention_policy,
  ]);
  return rows.map(({ id }) => id);
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
 * the same user or, unless `isApart`, of none. Ordered by id, then newest first.
 */
export async function listComparedTexts(
  tx: Tx,
  of: { agentId: string; ids: readonly string[]; limit: number; isApart: boolean },
): Promise<ComparedPair[]> {
  const join = `memory_entries e on e.id = found.id and e.agent_id = $1 and e.${LIVE} and (e.expires_at is null or e.expires_at > now())
    and (e.valid_to is null or e.valid_to > now()) and (own.valid_to is null or own.valid_to > coalesce(e.valid_from, e.created_at))
    and case when $4::boolean then e.metadata->>'user_id' is not distinct from own.metadata->>'user_id'
      else coalesce(e.metadata->>'user_id' = own.metadata->>'user_id', true) end`;
  return tx.query(
    `select own.id as entry, own.content, o.id as other, o.content as other_content from memory_entries own
       cross join lateral (${likeWords({ text: 'own.content', notId: 'own.id', limit: '$3', join })}) l
       join memory_entries o on o.id = l.id
      where own.id = any($2::uuid[]) and own.agent_id = $1 and own.${LIVE} order by own.id, o.id desc`,
    [of.agentId, of.ids, of.limit, of.isApart],
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
