/** Entries of agents' memory: rows, versions, and the words in the text index. */
import type { MemoryOrigin, MemoryStatus, MemoryType } from '../core/memory/entry.ts';
import type { Whose } from '../core/memory/whose.ts';
import type { Tx } from './database.ts';

export interface MemoryRow {
  id: string;
  agent_id: string;
  thread_id: string | null;
  memory_type: MemoryType;
  content: string;
  summary: string | null;
  status: MemoryStatus;
  origin: MemoryOrigin;
  run_id: string | null;
  turn_id: string | null;
  seq: number | null;
  key_id: string | null;
  root_id: string;
  version: number;
  supersedes: string | null;
  superseded_by: string | null;
  reason: string | null;
  made_from: string[] | null;
  importance: number;
  relevance_score: number;
  metadata: Record<string, unknown>;
  tokens: number;
  is_profile: boolean;
  access_count: number;
  last_accessed: Date | null;
  valid_from: Date | null;
  valid_to: Date | null;
  expires_at: Date | null;
  embedding_model: string | null;
  created_at: Date;
  updated_at: Date;
}

export const MEMORY_COLUMNS = `id, agent_id, thread_id, memory_type, content, summary, status, origin, run_id, turn_id, seq, key_id, root_id,
  version, supersedes, superseded_by, reason, made_from, importance, relevance_score, metadata, tokens, is_profile, access_count,
  last_accessed, valid_from, valid_to, expires_at, embedding_model, created_at, updated_at`;

/** Condition on `memory_entries`: recall may find it. */
export const LIVE = `status in ('active', 'disputed')`;

/** Condition on `memory_entries`: not expired. Expired entries wait for the sweep, and are not read. */
export const IN_FORCE = `(expires_at is null or expires_at > now())`;

/** Condition on `memory_entries`: still true and in force, so it can stand for the same text said now. */
export const STILL_SO = `(valid_to is null or valid_to > now()) and ${IN_FORCE}`;

/** A row to insert; for absent columns the table's defaults apply. */
export type NewMemoryRow = Pick<
  MemoryRow,
  'id' | 'agent_id' | 'memory_type' | 'content' | 'origin' | 'root_id' | 'metadata' | 'tokens' | 'is_profile'
> &
  Partial<Omit<MemoryRow, 'embedding_model'>> & { tenant_id: string; content_hash: string };

/** For the live entries among `$1`. */
const NOTE_MODELS = `insert into memory_models (agent_id, model, tenant_id, wanted)
  select distinct e.agent_id, e.embedding_model, e.tenant_id,
    coalesce(v.definition->'memory_config'->'long_term'->>'embedding_model', '') from memory_entries e
    left join agents a on a.id = e.agent_id left join agent_versions v on v.agent_id = a.id and v.version = a.current_version
   where e.id = any($1::uuid[]) and e.${LIVE} and e.embedding is not null
  on conflict do nothing`;

const LANGUAGE = `'english'`;

/** Adds entries with their words. If the tenant already has a vector of the same text, reuses it; returns the ids of those entries. */
export async function insertMemories(tx: Tx, rows: readonly NewMemoryRow[]): Promise<string[]> {
  const inserted = await tx.query<{ id: string; embedded: boolean }>(
    `insert into memory_entries (id, tenant_id, agent_id, thread_id, memory_type, content, content_hash, summary, status, origin,
        run_id, turn_id, seq, key_id, root_id, version, supersedes, reason, made_from, importance, relevance_score, metadata,
        tokens, is_profile, access_count, last_accessed, valid_from, valid_to, expires_at, embedding, embedding_model)
     select r.id, r.tenant_id, r.agent_id, r.thread_id, r.memory_type, r.content, r.content_hash, r.summary,
        coalesce(r.status, 'active'), r.origin, r.run_id, r.turn_id, r.seq, r.key_id, r.root_id, coalesce(r.version, 1),
        r.supersedes, r.reason, r.made_from, coalesce(r.importance, 0.5), coalesce(r.relevance_score, 0.5), r.metadata,
        r.tokens, r.is_profile, coalesce(r.access_count, 0), r.last_accessed, r.valid_from, r.valid_to, r.expires_at,
        known.embedding, known.embedding_model
      from jsonb_populate_recordset(null::memory_entries, $1::jsonb) r
      left join lateral (select k.embedding, k.embedding_model from memory_entries k
        where k.tenant_id = r.tenant_id and k.content_hash = r.content_hash and k.embedding is not null
        order by k.id desc limit 1) known on true
     returning id, embedding is not null as embedded`,
    [JSON.stringify(rows)],
  );
  await indexWords(
    tx,
    rows.map(({ id }) => id),
  );
  return inserted.filter(({ embedded }) => embedded).map(({ id }) => id);
}

/** Replaces the words of live entries in the text index, and records the models of their vectors. */
export async function indexWords(tx: Tx, ids: readonly string[]): Promise<void> {
  await tx.query('delete from memory_terms where entry_id = any($1::uuid[])', [ids]);
  await tx.query(
    `with noted as (${NOTE_MODELS})
     insert into memory_terms (tenant_id, owner_id, term, entry_id, tf, len)
     select e.tenant_id, e.agent_id, left(w.lexeme, 100), e.id, least(sum(w.tf), 32767), least(max(w.len), 32767)
       from memory_entries e cross join lateral (
         select lexeme, cardinality(positions) as tf, sum(cardinality(positions)) over () as len
           from unnest(to_tsvector(${LANGUAGE}, split_words(left(e.content, 200000))))) w
      where e.id = any($1::uuid[]) and e.${LIVE}
      group by e.tenant_id, e.agent_id, left(w.lexeme, 100), e.id`,
    [ids],
  );
}

/** An entry of the agent, even if expired unless `inForce` is set; undefined if there is none. */
export async function findMemory(
  tx: Tx,
  of: { agentId: string; id: string; lock?: boolean; inForce?: boolean },
): Promise<MemoryRow | undefined> {
  const [row] = await tx.query<MemoryRow>(
    `select ${MEMORY_COLUMNS} from memory_entries where id = $2 and agent_id = $1${of.inForce ? ` and ${IN_FORCE}` : ''}${of.lock ? ' for update' : ''}`,
    [of.agentId, of.id],
  );
  return row;
}

/** A live entry with exactly this text that is still true, and concerns `whose` (`concerns`) if given; undefined if there is none. */
export async function findSameText(
  tx: Tx,
  of: { tenantId: string; agentId: string; hash: string; whose?: Whose },
): Promise<MemoryRow | undefined> {
  const [row] = await tx.query<MemoryRow>(
    `select ${MEMORY_COLUMNS} from memory_entries
      where tenant_id = $1 and content_hash = $3 and agent_id = $2 and ${LIVE} and ${STILL_SO}
        and case when $5::boolean then metadata->>'user_id' is not distinct from $4
          else $4::text is null or coalesce(metadata->>'user_id', $4) = $4 end order by id limit 1`,
    [of.tenantId, of.agentId, of.hash, of.whose?.userId ?? null, of.whose?.isApart ?? false],
  );
  return row;
}

/**
 * Replaces an entry by another one (`by`), and takes it out of recall. False if it was not live any more; archived ones only
 * with `evenArchived`.
 */
export async function supersedeMemory(
  tx: Tx,
  of: { id: string; by: string; validTo: Date | null; reason: string | null; evenArchived?: boolean },
): Promise<boolean> {
  const rows = await tx.query(
    `update memory_entries set status = 'superseded', superseded_by = $2, valid_to = greatest(coalesce(valid_to, $3, now()), valid_from),
        reason = coalesce($4, reason), updated_at = now()
      where id = $1 and (${LIVE} or $5::boolean and status = 'archived') returning id`,
    [of.id, of.by, of.validTo, of.reason, of.evenArchived ?? false],
  );
  if (rows.length > 0) await tx.query('delete from memory_terms where entry_id = $1', [of.id]);
  return rows.length > 0;
}

/** Makes the newest of these versions of facts current again, before those that have superseded it go. */
export async function reinstateMemories(tx: Tx, ids: readonly string[]): Promise<void> {
  const rows = await tx.query<{ id: string }>(
    // The end of its time goes if being superseded has set it.
    `update memory_entries e set status = 'active', superseded_by = null, version = e.version + 1, updated_at = now(),
        valid_to = case when e.valid_to in (e.updated_at, s.valid_from) then null else e.valid_to end
       from memory_entries b left join memory_entries s on s.id = b.superseded_by
      where b.id = any($1::uuid[]) and e.id = b.id and e.status = 'superseded' and coalesce(s.root_id, e.root_id) = e.root_id
        and not exists (select from memory_entries n where n.root_id = e.root_id and n.id > e.id and n.id = any($1::uuid[]))
     returning e.id`,
    [ids],
  );
  await indexWords(
    tx,
    rows.map(({ id }) => id),
  );
}

/** Changes attributes other than the fact itself: its weight, and whether it is recalled. */
export async function updateMemory(
  tx: Tx,
  of: {
    id: string;
    set: Partial<Pick<MemoryRow, 'importance' | 'status' | 'metadata' | 'is_profile' | 'valid_to' | 'expires_at'>>;
    reason: string | null;
  },
): Promise<void> {
  const { status, importance, metadata, is_profile: isProfile, valid_to: validTo, expires_at: expiresAt } = of.set;
  await tx.query(
    `update memory_entries set status = coalesce($2, status), importance = coalesce($3, importance),
        metadata = coalesce($4::jsonb, metadata), is_profile = coalesce($5, is_profile), valid_to = coalesce($6, valid_to),
        expires_at = coalesce($7, expires_at), reason = coalesce($8, reason), version = version + 1, updated_at = now()
      where id = $1`,
    [
      of.id,
      status ?? null,
      importance ?? null,
      metadata === undefined ? null : JSON.stringify(metadata),
      isProfile ?? null,
      validTo ?? null,
      expiresAt ?? null,
      of.reason,
    ],
  );
  if (status !== undefined) await indexWords(tx, [of.id]);
}

/** The live ones among these entries. */
export async function listLive(tx: Tx, of: { agentId: string; ids: readonly string[] }): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select id from memory_entries where agent_id = $1 and id = any($2::uuid[]) and ${LIVE}`,
    [of.agentId, of.ids],
  );
  return rows.map(({ id }) => id);
}
