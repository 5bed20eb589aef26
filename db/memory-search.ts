/** Finds candidates of recall by the question's words and its vector. `core/memory/ranking.ts` ranks them. */
import { readPassage } from '../core/memory/passage.ts';
import type { Candidate, Neighbour } from '../core/memory/candidate.ts';
import { BM25, NEIGHBOUR_STEPS } from '../core/memory/ranking.ts';
import type { MemoryType } from '../core/memory/entry.ts';
import type { Tx } from './database.ts';
import { IN_FORCE, LIVE, MEMORY_COLUMNS, type MemoryRow } from './memory-entries.ts';
import { userOf } from './memory-indexes.ts';
import { POSTINGS, withOlder } from './memory-postings.ts';

export interface MemoryScope {
  agentId: string;
  threadId?: string | undefined;
  memoryTypes?: readonly MemoryType[] | undefined;
  ownedBy?: Owners | undefined;
}

/** Entries of a user or a thread; of either if both are given. */
export interface Owners {
  userId: string | undefined;
  threadId: string | undefined;
}

/** A question's vector, and the model that made it. */
export interface QuestionVector {
  model: string;
  /** In pgvector's notation. */
  vector: string;
  dimensions: number;
}

export type FoundMemory = Candidate & MemoryRow;

/**
 * Up to this many entries of a scope are compared one by one, which takes 5 ms per thousand; beyond that, the index provides
 * the nearest.
 */
export const EXACT_ROWS = 3000;
/**
 * Tuples that an index search examines before it gives up (less if the server says so), and the number of newest entries
 * compared in addition if it finds too few.
 */
const SCANNED_ROWS = 4000;
const NEWEST_ROWS = 1000;
const LEXICAL_CANDIDATES = 200;
const VECTOR_CANDIDATES = 100;
/** For this many of the best, neighbours are read, and how many before and after each. */
const WITH_NEIGHBOURS = 20;
const NO_WORDS: ReadonlyMap<string, number> = new Map();
const COUNTED_ROWS = 5000;

/** Unranked candidates for a question, with their signals from the database. */
export async function findCandidates(
  tx: Tx,
  scope: MemoryScope,
  question: { text: string; vector: QuestionVector | undefined },
): Promise<FoundMemory[]> {
  const size = await countLive(tx, scope.agentId);
  if (size === 0) return [];
  const of = await bindScope(tx, scope);
  const lexical = await findByWords(tx, of, { text: question.text, size });
  const near = question.vector ? await findNear(tx, of, { ...question.vector, size }) : [];
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
  return rows.map((row) => {
    const passage = scores.has(row.id) ? readPassage(row.content, words) : undefined;
    // The row itself is changed: nobody else has it, and there are hundreds.
    return Object.assign(row, {
      lexical: scores.get(row.id) ?? 0,
      passage: passage?.share ?? 0,
      words: passage?.found ?? NO_WORDS,
      cosine: row.cosine ?? undefined,
      neighbours: neighbours.get(row.id) ?? [],
    });
  });
}

/** Always-loaded entries that hold at the time `at`, most important first. */
export async function listProfile(
  tx: Tx,
  scope: Pick<MemoryScope, 'agentId' | 'ownedBy'>,
  { at, limit }: { at: Date; limit: number },
): Promise<MemoryRow[]> {
  const { condition, values } = (await withinScope(tx, scope))(4);
  return tx.query<MemoryRow>(
    `select ${MEMORY_COLUMNS} from memory_entries where agent_id = $1 and is_profile and ${LIVE} and ${IN_FORCE}
        and (valid_to is null or valid_to > $3) and (valid_from is null or valid_from <= $3) and ${condition}
      order by importance desc, id limit $2`,
    [scope.agentId, limit, at, ...values],
  );
}

/** The number of an agent's live entries, counted only as far as needed. */
export async function countLive(tx: Tx, agentId: string): Promise<number> {
  const [row] = await tx.query<{ size: number }>(
    `select count(*) as size from (select from memory_entries where agent_id = $1 and ${LIVE} limit $2::int) counted`,
    [agentId, COUNTED_ROWS],
  );
  return row?.size ?? 0;
}

/** A scope as condition on an entry's columns, with parameters from `$from` on; `true` without any if all is in scope. */
type Within = (from: number) => { condition: string; values: unknown[] };

/** An agent, what of its entries is in scope, and how many these are, as far as counted; undefined for all of them. */
interface BoundScope {
  agentId: string;
  within: Within;
  count: number | undefined;
}

async function bindScope(tx: Tx, scope: MemoryScope): Promise<BoundScope> {
  const { agentId } = scope;
  const within = await withinScope(tx, scope);
  const { condition, values } = within(3);
  if (values.length === 0) return { agentId, within, count: undefined };
  const [row] = await tx.query<{ size: number }>(
    `select count(*)::int as size from (select from memory_entries where agent_id = $1 and ${LIVE} and ${condition}
      limit $2::int) counted`,
    [agentId, EXACT_ROWS + 1, ...values],
  );
  return { agentId, within, count: row?.size ?? 0 };
}

/** Only what is asked for is in the condition, as no index serves one that holds without a value, too. */
async function withinScope(tx: Tx, { threadId, memoryTypes, ownedBy }: MemoryScope): Promise<Within> {
  const user = ownedBy?.userId === undefined ? undefined : await userOf(tx);
  return (from) => {
    const values: unknown[] = [];
    const parameter = (value: unknown) => `$${from - 1 + values.push(value)}`;
    const owned = [
      ...(user === undefined ? [] : [`${user} = ${parameter(ownedBy?.userId)}`]),
      ...(ownedBy?.threadId === undefined ? [] : [`thread_id = ${parameter(ownedBy.threadId)}`]),
    ];
    const all = [
      ...(owned.length === 0 ? [] : [`(${owned.join(' or ')})`]),
      ...(threadId === undefined ? [] : [`thread_id = ${parameter(threadId)}`]),
      ...(memoryTypes === undefined ? [] : [`memory_type = any(${parameter(memoryTypes)})`]),
    ];
    return { condition: all.join(' and ') || 'true', values };
  };
}

/**
 * By BM25, relative to an entry of average length with each word once; best first. The first row has the words' weights. Scores
 * are rounded to 24 bits: the last ones of a sum depend on the order that a plan takes, which would decide between equal ones.
 */
async function findByWords(
  tx: Tx,
  { agentId, within, count }: BoundScope,
  { text, size }: { text: string; size: number },
): Promise<{ entry_id: string; score: number; words: Record<string, number> | null }[]> {
  const { condition, values } = within(6);
  const own = `select id from memory_entries where agent_id = $1 and ${LIVE} and ${condition}`;
  const isOwn = values.length === 0 ? 'true' : `entry_id in (${own})`;
  const read = 'select owner_id, term, entry_id, tf, len from memory_terms where owner_id = $1 and term = asked.term';
  // Of few, each is looked up by itself, however many others have the word. With a limit of its own it stays a look at one row.
  const isFew = count !== undefined && count <= POSTINGS;
  const postings = isFew
    ? `select t.* from own cross join lateral (${read} and entry_id = own.id limit 1) t order by t.entry_id desc`
    : `${read} and ${isOwn} order by entry_id desc limit ${POSTINGS}`;
  return tx.query(
    `with asked as materialized (select left(lexeme, 100) as term from unnest(to_tsvector('english', split_words(left($2, 20000)))) limit 64),
      ${isFew ? `own as materialized (${own}),` : ''}
      postings as materialized (select p.* from asked cross join lateral (${postings}) p),
      ${isFew ? 'every as (select * from postings)' : withOlder(isOwn)},
      words as (select term, ln(1 + greatest($3::float8 - count(*), 0) / (count(*) + 0.5) + 0.5 / (count(*) + 0.5)) as idf
        from postings group by term),
      middling as (select greatest(avg(len), 1) as len from (select len from postings limit 1000) p),
      best as (select sum(idf) as score from words),
      found as (select entry_id, (sum(words.idf * p.tf * ($4::float8 + 1) / (p.tf + $4 * (1 - $5::float8 + $5 * p.len / middling.len)))
        / max(best.score))::real::float8 as score
      from every p join words using (term) cross join middling cross join best
      group by entry_id order by score desc, entry_id desc limit ${LEXICAL_CANDIDATES})
     select entry_id, score, case when row_number() over (order by score desc, entry_id desc) = 1
         then (select jsonb_object_agg(term, idf) from words) end as words
       from found order by score desc, entry_id desc`,
    [agentId, text, size, BM25.k1, BM25.b, ...values],
  );
}

/**
 * By cosine. Few entries are compared one by one; for many, the index provides the nearest. It only examines a limited number:
 * if others' entries are nearer, it finds too few, and the newest of the scope are compared in addition.
 */
async function findNear(
  tx: Tx,
  scope: BoundScope,
  { size, ...asked }: QuestionVector & { size: number },
): Promise<string[]> {
  if (size <= EXACT_ROWS || (scope.count ?? size) <= EXACT_ROWS)
    return nearest(tx, scope, { ...asked, newest: EXACT_ROWS });
  const ids = await nearest(tx, scope, asked);
  if (ids.length >= VECTOR_CANDIDATES) return ids;
  return [...new Set([...ids, ...(await nearest(tx, scope, { ...asked, newest: NEWEST_ROWS }))])];
}

/** By the index, or with `newest` exactly, among so many of the scope's newest. */
async function nearest(
  tx: Tx,
  { agentId, within }: BoundScope,
  { newest, ...asked }: QuestionVector & { newest?: number },
): Promise<string[]> {
  const { condition, values } = within(2);
  const where = `agent_id = $1 and ${LIVE} and ${condition}`;
  const of = { table: 'memory_entries', where, values: [agentId, ...values], limit: VECTOR_CANDIDATES };
  return nearestFirst(tx, asked, { ...of, newest });
}

/** Ids of rows whose vectors are nearest to a question's, by the table's index, or with `newest` exactly, among so many of the newest. */
export async function nearestFirst(
  tx: Tx,
  { model, vector, dimensions }: QuestionVector,
  of: { table: string; where: string; values: readonly unknown[]; limit: number; newest?: number | undefined },
): Promise<string[]> {
  const { table, where, values, limit, newest } = of;
  const type = vectorType(dimensions);
  await boundIndexSearch(tx);
  const [first, second] = [`$${values.length + 1}`, `$${values.length + 2}`];
  const source =
    newest !== undefined
      ? `(with owned as materialized (select id, embedding from ${table} where ${where} and embedding_model = ${second}
          order by id desc limit ${newest}) select * from owned)`
      : `(select id, embedding from ${table} where ${where} and embedding_model = ${second} and embedding_model = '${quoted(model)}')`;
  const rows = await tx.query<{ id: string }>(
    `select id from ${source} near order by near.embedding::${type} <=> ${first}::${type} limit ${limit}`,
    [...values, vector, model],
  );
  return rows.map(({ id }) => id);
}

/** The type that the index of a model with so many dimensions has. */
export function vectorType(dimensions: number): string {
  return `${dimensions > 2000 ? 'halfvec' : 'vector'}(${dimensions})`;
}

/** Has searches by an index in this transaction go on until they have found enough, within bounds. */
export async function boundIndexSearch(tx: Tx): Promise<void> {
  await tx.query(
    `select set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', '100', true),
       set_config('hnsw.max_scan_tuples', least(current_setting('hnsw.max_scan_tuples', true)::int, ${SCANNED_ROWS})::text, true)`,
  );
}

/** A partial index is only used if its condition is a literal in the statement. */
export function quoted(model: string): string {
  return model.replaceAll("'", "''");
}

/** The entries before and after given ones in their conversations. */
async function findNeighbours(
  tx: Tx,
  { agentId }: MemoryScope,
  ids: readonly string[],
): Promise<{ id: string; other: string; steps: number }[]> {
  const beside = (comparison: string, direction: string) =>
    `(select n.id, row_number() over (order by n.id ${direction})::int as steps from memory_entries n
       where n.agent_id = $1 and n.thread_id = e.thread_id and n.id ${comparison} e.id and n.${LIVE}
      order by n.id ${direction} limit ${NEIGHBOUR_STEPS})`;
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
