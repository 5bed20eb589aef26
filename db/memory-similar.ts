/** Entries that say the same as candidates of a consolidation, which may be merged into them. */
import { DUPLICATE_COSINE, type SimilarEntry } from '../core/memory/consolidation.ts';
import type { Tx } from './database.ts';
import { LIVE } from './memory-entries.ts';
import { boundIndexSearch, countLive, EXACT_ROWS, quoted, vectorType } from './memory-search.ts';

/** Whether entry `e` can replace `c`: same user and subject, and at least as long-lived, valid, trusted, and always loaded. */
const STANDS_FOR = `e.metadata->>'user_id' is not distinct from c.metadata->>'user_id'
  and coalesce(e.metadata->>'subject' = c.metadata->>'subject', c.metadata->>'subject' is null)
  and (e.is_profile or not c.is_profile) and (e.origin in ('user', 'agent') or c.origin not in ('user', 'agent'))
  and (e.expires_at is null or e.expires_at >= c.expires_at) and (e.valid_to is null or e.valid_to >= c.valid_to)`;

/** Per candidate, of entries with the same text, and of the nearest. */
const KEPT = 3;
/** Entries that the index gives for a candidate, before those that cannot stand for it are left out. */
const NEAREST = 100;

/** Other live entries whose text is nearly or exactly a candidate's. */
export async function findSimilar(tx: Tx, agentId: string, ids: readonly string[]): Promise<SimilarEntry[]> {
  const same = await tx.query<SimilarEntry>(
    `select c.id, o.id as other, o.content from memory_entries c cross join lateral (
        select e.id, e.content from memory_entries e where e.tenant_id = c.tenant_id and e.content_hash = c.content_hash
          and e.agent_id = $1 and e.id <> c.id and e.${LIVE} and ${STANDS_FOR} order by e.id limit ${KEPT}) o
      where c.id = any($2::uuid[])`,
    [agentId, ids],
  );
  const models = await tx.query<Vectors>(
    `select embedding_model as model, vector_dims(embedding) as dimensions, array_agg(id) as ids from memory_entries
      where id = any($1::uuid[]) and embedding is not null group by 1, 2`,
    [ids],
  );
  if (models.length === 0) return same;
  const isFew = (await countLive(tx, agentId)) <= EXACT_ROWS;
  const near: SimilarEntry[] = [];
  for (const vectors of models) near.push(...(await findNear(tx, agentId, { ...vectors, isFew })));
  const known = new Set(same.map(({ id, other }) => `${id} ${other}`));
  return [...same, ...near.filter(({ id, other }) => !known.has(`${id} ${other}`))];
}

/** Candidates with vectors of one model. */
interface Vectors {
  model: string;
  dimensions: number;
  ids: string[];
}

/**
 * By cosine. Few entries are compared one by one, which reads each vector once for all candidates; of many, the index of the
 * model gives each candidate's nearest.
 */
async function findNear(
  tx: Tx,
  agentId: string,
  { model, dimensions, ids, isFew }: Vectors & { isFew: boolean },
): Promise<SimilarEntry[]> {
  const type = vectorType(dimensions);
  const owned = `o.agent_id = $1 and o.${LIVE} and o.embedding_model = '${quoted(model)}'`;
  const others = isFew
    ? `select id, embedding <=> c.vector as distance from owned where id <> c.id`
    : `select o.id, o.embedding::${type} <=> c.vector as distance from memory_entries o where ${owned} and o.id <> c.id
        order by o.embedding::${type} <=> c.vector limit ${NEAREST}`;
  if (!isFew) await boundIndexSearch(tx);
  return tx.query<SimilarEntry>(
    // The cast to a length unpacks a stored vector, for all comparisons with it.
    `with asked as materialized (select id, embedding::${type} as vector from memory_entries where id = any($2::uuid[])),
      ${isFew ? `owned as materialized (select o.id, o.embedding::${type} as embedding from memory_entries o where ${owned} and vector_dims(o.embedding) = ${dimensions}),` : ''}
      near as materialized (select c.id, o.id as other, o.distance from asked c cross join lateral (${others}) o
        where o.distance <= $3::float8),
      placed as (select c.id, e.id as other, e.content, row_number() over (partition by c.id order by n.distance, e.id) as place
        from near n join memory_entries c on c.id = n.id join memory_entries e on e.id = n.other where ${STANDS_FOR})
     select id, other, content from placed where place <= ${KEPT} order by id, place`,
    [agentId, ids, 1 - DUPLICATE_COSINE],
  );
}

/** Of pairs that were found before, those that are still to be found, as they are now. */
export async function readSimilar(
  tx: Tx,
  agentId: string,
  pairs: readonly Pick<SimilarEntry, 'id' | 'other'>[],
): Promise<SimilarEntry[]> {
  const found = await tx.query<SimilarEntry>(
    `select c.id, e.id as other, e.content from jsonb_to_recordset($2::jsonb) as p (id uuid, other uuid)
       join memory_entries c on c.id = p.id and c.agent_id = $1
       join memory_entries e on e.id = p.other and e.agent_id = $1 and e.${LIVE} and ${STANDS_FOR}`,
    [agentId, JSON.stringify(pairs.map(({ id, other }) => ({ id, other })))],
  );
  const places = new Map(pairs.map(({ id, other }, place) => [`${id} ${other}`, place]));
  const placeOf = ({ id, other }: SimilarEntry) => places.get(`${id} ${other}`) ?? 0;
  return found.toSorted((a, b) => placeOf(a) - placeOf(b));
}
