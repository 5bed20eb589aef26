/** Searches fragments of spaces by words and vectors: few are compared one by one; for many, indexes provide candidates. */
import { BM25 } from '../core/memory/ranking.ts';
import { withLength } from '../core/memory/vector-names.ts';
import type { Tx } from './database.ts';
import { POSTINGS, withOlder } from './memory-postings.ts';
import { nearestFirst, type QuestionVector } from './memory-search.ts';
import {
  FRAGMENT_BYTES,
  FRAGMENT_COLUMNS,
  NEWEST_OF_EACH,
  VISIBLE,
  type FragmentRow,
  type FragmentSearch,
} from './memory-fragments.ts';
import { pageOfSized, untilFull, type Sized } from './page-bytes.ts';

/** Up to this many visible fragments are compared one by one, which takes 5 ms per thousand. */
const EXACT_FRAGMENTS = 3000;
/** With more, this many of the newest are compared, too, if the vector index finds too few. */
const NEWEST_FRAGMENTS = 1000;
/** With more, the number of fragments that word frequencies are related to. */
const COUNTED_FRAGMENTS = 5000;
const LEXICAL_CANDIDATES = 200;
const VECTOR_CANDIDATES = 100;

type FoundFragment = FragmentRow & { lexical: number; cosine: number };

/** Fragments by the question's words, relative to the best possible, and by its vector: the best first, as many as fit on a page. */
export async function searchFragments(
  tx: Tx,
  scope: FragmentSearch,
  { text, vector: asked }: { text: string; vector: QuestionVector | undefined },
): Promise<FoundFragment[]> {
  const seen = await listSeen(tx, scope, EXACT_FRAGMENTS + 1);
  if (seen.length === 0) return [];
  const isFew = seen.length <= EXACT_FRAGMENTS;
  const vector = asked && (await fitting(tx, scope, asked));
  const near = isFew ? seen : vector ? await findNear(tx, scope, vector) : [];
  const size = isFew ? seen.length : COUNTED_FRAGMENTS;
  return searchAmong(tx, scope, { text, vector, near, isFew, size });
}

/** Ids of fragments that the agent may see, in no order. */
async function listSeen(tx: Tx, { spaceIds, agentId }: FragmentSearch, limit: number): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select f.id from memory_fragments f where f.space_id = any($1::uuid[]) and ${VISIBLE} limit $3`,
    [spaceIds, agentId, limit],
  );
  return rows.map(({ id }) => id);
}

/**
 * A question's vector, with the name of the fragments' vectors that it can be compared with; undefined if there are only others:
 * the model may give others than it did.
 */
async function fitting(
  tx: Tx,
  { spaceIds }: FragmentSearch,
  asked: QuestionVector,
): Promise<QuestionVector | undefined> {
  const { model, dimensions } = asked;
  const lengthOf = async (name: string): Promise<number | undefined> => {
    const [row] = await tx.query<{ length: number }>(
      `select vector_dims(embedding) as length from memory_fragments
        where space_id = any($1::uuid[]) and embedding_model = $2 and embedding is not null limit 1`,
      [spaceIds, name],
    );
    return row?.length;
  };
  const stored = await lengthOf(model);
  if (stored === dimensions) return asked;
  const name = withLength(model, dimensions);
  if ((await lengthOf(name)) !== undefined) return { ...asked, model: name };
  return stored === undefined ? asked : undefined;
}

/** The nearest found by the index; in addition the newest, if others' fragments are nearer. */
async function findNear(tx: Tx, scope: FragmentSearch, asked: QuestionVector): Promise<string[]> {
  const { spaceIds, agentId } = scope;
  const [where, values] = [`f.space_id = any($1::uuid[]) and ${VISIBLE}`, [spaceIds, agentId]];
  const ids = await nearestFirst(tx, asked, { table: 'memory_fragments f', where, values, limit: VECTOR_CANDIDATES });
  if (ids.length >= VECTOR_CANDIDATES) return ids;
  const newest = await tx.query<{ id: string }>(
    `select f.id from ${NEWEST_OF_EACH} order by f.created_at desc, f.id desc limit $3`,
    [spaceIds, agentId, NEWEST_FRAGMENTS],
  );
  return [...ids, ...newest.map(({ id }) => id)];
}

async function searchAmong(
  tx: Tx,
  { spaceIds, agentId, limit }: FragmentSearch,
  asked: { text: string; vector: QuestionVector | undefined; near: readonly string[]; isFew: boolean; size: number },
): Promise<FoundFragment[]> {
  const { text, vector, near, isFew, size } = asked;
  const seen = `exists (select from memory_fragments f where f.id = entry_id and ${VISIBLE})`;
  const postings = isFew
    ? `select p.* from asked join memory_terms p on p.owner_id = any($1::uuid[]) and p.term = asked.term
        where p.entry_id in (select id from near)`
    : `select p.* from asked cross join unnest($1::uuid[]) as space (id) cross join lateral (
        select t.* from memory_terms t join memory_fragments f on f.id = t.entry_id
          where t.owner_id = space.id and t.term = asked.term and ${VISIBLE} order by t.entry_id desc limit ${POSTINGS}) p`;
  const found = await tx.query<FoundFragment & Sized>(
    `with asked as materialized (select left(lexeme, 100) as term from unnest(to_tsvector('english', split_words(left($4, 20000)))) limit 64),
      near as materialized (select distinct id from unnest($7::uuid[]) as near (id)),
      postings as materialized (${postings}),
      ${isFew ? 'every as (select * from postings)' : withOlder(seen)},
      words as (select term, ln(1 + (greatest($8::float8 - count(*), 0) + 0.5) / (count(*) + 0.5)) as idf from postings group by term),
      best as (select coalesce(sum(coalesce(w.idf, ln(1 + ($8 + 0.5) / 0.5))), 0) as score from asked left join words w using (term)),
      scored as materialized (select p.entry_id as id,
        (sum(words.idf * p.tf * (${BM25.k1} + 1) / (p.tf + ${BM25.k1})) / max(best.score))::real::float8 as score
        from every p join words using (term) cross join best group by p.entry_id order by score desc, id desc
        limit case when ${isFew} then null else ${LEXICAL_CANDIDATES} end)
     ${untilFull(
       `select ${FRAGMENT_COLUMNS}, least(1, coalesce(s.score, 0))::float8 as lexical, c.cosine, ${FRAGMENT_BYTES},
        row_number() over (order by 1 - (1 - least(1, coalesce(s.score, 0))) * (1 - c.cosine) desc, c.cosine desc, f.id desc) as rank
      from (select id from near union select id from scored) candidate join memory_fragments f using (id) left join scored s using (id)
        cross join lateral (select greatest(0, case when f.embedding_model = $5 then 1 - (f.embedding <=> $6::vector) else 0 end)::float8 as cosine) c
      where f.space_id = any($1::uuid[]) and ${VISIBLE} and (s.score is not null or f.embedding_model = $5) order by rank limit $3`,
       'rank',
     )}`,
    [spaceIds, agentId, limit, text, vector?.model ?? null, vector?.vector ?? null, near, size],
  );
  return pageOfSized(found, limit).rows;
}
