/** Candidates of recall: entries that the words of a question, or its vector, lead to. `core/memory/ranking.ts` ranks them. */
import { passageSignal } from '../core/memory/passage.ts';
import type { Candidate, Neighbour } from '../core/memory/ranking.ts';
import { BM25 } from '../core/memory/ranking.ts';
import type { MemoryType } from '../core/memory/entry.ts';
import type { Tx } from './database.ts';
import { LIVE, MEMORY_COLUMNS, type MemoryRow } from './memory-entries.ts';

export interface MemoryScope {
  agentId: string;
  threadId?: string | undefined;
  memoryTypes?: readonly MemoryType[] | undefined;
  ownedBy?: Owners | undefined;
}

/** Entries of a user or of a thread, of either where both are named. */
export interface Owners {
  userId: string | undefined;
  threadId: string | undefined;
}

/** A question's vector, by the model that made it. */
export interface QuestionVector {
  model: string;
  /** As pgvector writes it. */
  vector: string;
  dimensions: number;
}

export type FoundMemory = Candidate & MemoryRow;

/** Entries of one owner beyond which nearest neighbours come from the index, which is not exact. */
const EXACT_ROWS = 3000;
/** The newest entries with a word that are looked at: a word that more have says little. */
const POSTINGS = 1000;
const LEXICAL_CANDIDATES = 200;
const VECTOR_CANDIDATES = 100;
/** The best of them have their neighbours looked at, so many before and after each. */
const WITH_NEIGHBOURS = 20;
const STEPS = 2;
const COUNTED_ROWS = 5000;

/** Candidates for a question, unranked, each with its signals from the database. */
export async function findCandidates(
  tx: Tx,
  scope: MemoryScope,
  question: { text: string; vector: QuestionVector | undefined },
): Promise<FoundMemory[]> {
  const size = await countLive(tx, scope.agentId);
  if (size === 0) return [];
  const lexical = await findByWords(tx, scope, { text: question.text, size });
  const near = question.vector ? await findNear(tx, scope, { ...question.vector, size }) : [];
  const scores = new Map(lexical.map(({ entry_id: id, score }) => [id, score]));
  const best = [...lexical.slice(0, WITH_NEIGHBOURS).map(({ entry_id: id }) => id), ...near.slice(0, WITH_NEIGHBOURS)];
  const around = await findNeighbours(tx, scope, [...new Set(best)]);
  const neighbours = new Map<string, Neighbour[]>();
  const join = (id: string, neighbour: Neighbour) => neighbours.set(id, [...(neighbours.get(id) ?? []), neighbour]);
  for (const { id, other, steps } of around) {
    join(id, { id: other, steps });
    join(other, { id, steps });
  }
  const ids = [...new Set([...scores.keys(), ...near, ...around.map(({ other }) => other)])];
  const rows = await readRows(tx, ids, question.vector);
  const words = new Map(Object.entries(lexical[0]?.words ?? {}));
  return rows.map((row) => ({
    ...row,
    lexical: scores.get(row.id) ?? 0,
    passage: scores.has(row.id) ? passageSignal(row.content, words) : 0,
    cosine: row.cosine ?? undefined,
    neighbours: neighbours.get(row.id) ?? [],
  }));
}

/** Entries that are always loaded, the most important first. */
export async function listProfile(tx: Tx, agentId: string, limit: number): Promise<MemoryRow[]> {
  return tx.query<MemoryRow>(
    `select ${MEMORY_COLUMNS} from memory_entries where agent_id = $1 and is_profile and ${LIVE} and ${IN_FORCE}
      order by importance desc, id limit $2`,
    [agentId, limit],
  );
}

const IN_FORCE = `(expires_at is null or expires_at > now())`;

async function countLive(tx: Tx, agentId: string): Promise<number> {
  const [row] = await tx.query<{ size: number }>(
    `select count(*) as size from (select from memory_entries where agent_id = $1 and ${LIVE} limit $2::int) counted`,
    [agentId, COUNTED_ROWS],
  );
  return row?.size ?? 0;
}

/** The entries that a scope leaves, as a condition on the id in `column`; parameters from `$from` on. */
function withinScope({ agentId, threadId, memoryTypes, ownedBy }: MemoryScope, column: string, from: number) {
  if (threadId === undefined && memoryTypes === undefined && !ownedBy) return { condition: 'true', values: [] };
  const condition = `${column} in (select e.id from memory_entries e where e.agent_id = $${from} and e.${LIVE}
    and ($${from + 1}::text is null or e.thread_id = $${from + 1}) and ($${from + 2}::text[] is null or e.memory_type = any($${from + 2}))
    and ($${from + 3}::text is null and $${from + 4}::text is null or e.metadata->>'user_id' = $${from + 3} or e.thread_id = $${from + 4}))`;
  const values = [agentId, threadId ?? null, memoryTypes ?? null, ownedBy?.userId ?? null, ownedBy?.threadId ?? null];
  return { condition, values };
}

/** By BM25, as a share of what an entry of middling length with each word once would have; best first. The first has the words' weights. */
async function findByWords(
  tx: Tx,
  scope: MemoryScope,
  { text, size }: { text: string; size: number },
): Promise<{ entry_id: string; score: number; words: Record<string, number> | null }[]> {
  const { condition, values } = withinScope(scope, 'entry_id', 6);
  return tx.query(
    `with asked as materialized (select left(lexeme, 100) as term from unnest(to_tsvector('english', left($2, 20000))) limit 64),
      postings as materialized (select p.* from asked cross join lateral (
        select term, entry_id, tf, len from memory_terms where owner_id = $1 and term = asked.term and ${condition}
          order by entry_id desc limit ${POSTINGS}) p),
      words as (select term, ln(1 + greatest($3::float8 - count(*), 0) / (count(*) + 0.5) + 0.5 / (count(*) + 0.5)) as idf
        from postings group by term),
      middling as (select greatest(avg(len), 1) as len from (select len from postings limit 1000) p),
      best as (select sum(idf) as score from words),
      found as (select entry_id, (sum(words.idf * p.tf * ($4::float8 + 1) / (p.tf + $4 * (1 - $5::float8 + $5 * p.len / middling.len)))
        / max(best.score))::float8 as score
      from postings p join words using (term) cross join middling cross join best
      group by entry_id order by score desc, entry_id desc limit ${LEXICAL_CANDIDATES})
     select entry_id, score, case when row_number() over (order by score desc, entry_id desc) = 1
         then (select jsonb_object_agg(term, idf) from words) end as words
       from found order by score desc, entry_id desc`,
    [scope.agentId, text, size, BM25.k1, BM25.b, ...values],
  );
}

/** By cosine. Few entries are compared one by one; of many the index gives the nearest, and more where a filter leaves too few. */
async function findNear(
  tx: Tx,
  scope: MemoryScope,
  { model, vector, dimensions, size }: QuestionVector & { size: number },
): Promise<string[]> {
  const { condition, values } = withinScope(scope, 'id', 4);
  const kind = `${dimensions > 2000 ? 'halfvec' : 'vector'}(${dimensions})`;
  const where = `agent_id = $1 and embedding_model = $2 and ${LIVE} and ${condition}`;
  await tx.query(
    `select set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', '100', true)`,
  );
  const source =
    size <= EXACT_ROWS
      ? `(with owned as materialized (select id, embedding, embedding_model from memory_entries where ${where}) select * from owned)`
      : `(select id, embedding, embedding_model from memory_entries where ${where} and embedding_model = '${quoted(model)}')`;
  const rows = await tx.query<{ id: string }>(
    `select id from ${source} near order by near.embedding::${kind} <=> $3::${kind} limit ${VECTOR_CANDIDATES}`,
    [scope.agentId, model, vector, ...values],
  );
  return rows.map(({ id }) => id);
}

/** A partial index is used where its condition is in the statement itself. */
function quoted(model: string): string {
  return model.replaceAll("'", "''");
}

/** The entries before and after some in their conversations. */
async function findNeighbours(
  tx: Tx,
  { agentId }: MemoryScope,
  ids: readonly string[],
): Promise<{ id: string; other: string; steps: number }[]> {
  const beside = (comparison: string, direction: string) =>
    `(select n.id, row_number() over (order by n.id ${direction})::int as steps from memory_entries n
       where n.agent_id = $1 and n.thread_id = e.thread_id and n.id ${comparison} e.id and n.${LIVE}
      order by n.id ${direction} limit ${STEPS})`;
  return tx.query(
    `select e.id, o.id as other, o.steps from memory_entries e
       cross join lateral (${beside('<', 'desc')} union all ${beside('>', 'asc')}) o
      where e.id = any($2::uuid[]) and e.thread_id is not null`,
    [agentId, ids],
  );
}

async function readRows(
  tx: Tx,
  ids: readonly string[],
  asked: QuestionVector | undefined,
): Promise<(MemoryRow & { cosine: number | null })[]> {
  const cosine = asked
    ? `case when embedding_model = $2 then (1 - (embedding <=> $3::vector))::float8 end`
    : `null::float8`;
  return tx.query(
    `select ${MEMORY_COLUMNS}, ${cosine} as cosine from memory_entries
      where id = any($1::uuid[]) and ${LIVE} and ${IN_FORCE}`,
    asked ? [ids, asked.model, asked.vector] : [ids],
  );
}
