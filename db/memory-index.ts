/** Nearest-neighbour indexes, one for each embedding model in use. */
import type { ClientBase } from 'pg';
import { OFFLINE_EMBEDDINGS } from '../core/memory/vector-names.ts';
import type { Database } from './database.ts';
import { makeIndexBesideWriters } from './make-index.ts';

interface VectorModel {
  /** The table with the vectors. */
  owner: 'memory_entries' | 'memory_fragments';
  model: string;
  dimensions: number;
}

/** The length of a model's vectors, as its index holds them; undefined before there is one. */
async function readVectorLength(
  db: Database,
  { owner, model }: Pick<VectorModel, 'owner' | 'model'>,
): Promise<number | undefined> {
  const [row] = await db.asMaintenance((tx) =>
    tx.query<{ length: number }>(
      `select (regexp_match(pg_get_indexdef(i.indexrelid), 'vec(?:tor)?\\((\\d+)\\)'))[1]::int as length
         from pg_index i join pg_class c on c.oid = i.indexrelid
        where i.indrelid = to_regclass($1) and i.indisvalid and starts_with(c.relname, $1 || '_near_')
          and strpos(pg_get_expr(i.indpred, i.indrelid), format('embedding_model = %L', $2::text)) > 0`,
      [owner, model],
    ),
  );
  return row?.length;
}

/** Lengths of a model's vectors; both are undefined for a model whose vectors are always of one. */
export interface GivenLengths {
  /** Of those that count now. */
  given: number | undefined;
  /** Of those that are stored under its mere name. */
  first: number | undefined;
}

/** The lengths of a model's vectors; `given` is undefined until some were noted. */
export async function readLengths(db: Database, of: Pick<VectorModel, 'owner' | 'model'>): Promise<GivenLengths> {
  if (of.model === OFFLINE_EMBEDDINGS) return { given: undefined, first: undefined };
  const [row] = await db.asMaintenance((tx) =>
    tx.query<{ length: number }>('select length from embedding_lengths where model = $1', [of.model]),
  );
  return { given: row?.length, first: await readVectorLength(db, of) };
}

/**
 * Notes the length of a vector that a model has given; returns the length that counts. That is the former one as long as
 * somebody was given it within this time: only a lasting change is one.
 */
export async function noteLength(
  db: Database,
  { model, length, withinMs }: { model: string; length: number; withinMs: number },
): Promise<number> {
  return db.asMaintenance(async (tx) => {
    // Once a minute suffices.
    await tx.query(
      `insert into embedding_lengths as l (model, length, seen_at) values ($1, $2, now())
         on conflict (model) do update set length = excluded.length, seen_at = now()
           where l.seen_at < now() - $3 * interval '1 ms' or l.length = excluded.length and l.seen_at < now() - interval '1 minute'`,
      [model, length, withinMs],
    );
    const [row] = await tx.query<{ length: number }>('select length from embedding_lengths where model = $1', [model]);
    return row?.length ?? length;
  });
}

/** The index's name, as built by `ensure_vector_index`. */
const STATE = `select n.name, i.indisvalid as valid from (select $3::text || '_near_' || substr(md5($1 || $2::int), 1, 12) as name) n
  left join pg_index i on i.indexrelid = to_regclass(n.name)`;

/**
 * Creates a model's missing index without blocking writers; returns whether it was missing. Does not wait if another process
 * is creating it: until then, vectors are compared one by one.
 */
export async function ensureMemoryIndex(db: Database, of: VectorModel): Promise<boolean> {
  if (of.dimensions < 1 || of.dimensions > 4000) return false;
  if (of.model === OFFLINE_EMBEDDINGS && of.dimensions === 512) return false;
  const values = [of.model, of.dimensions, of.owner];
  const [known] = await db.asMaintenance((tx) => tx.query<{ valid: boolean | null }>(STATE, values));
  if (known?.valid) return false;
  // There is only one session, so nobody else writes.
  if (db.kind === 'pglite') return makeAlone(db, values);
  return db.asOwner(async (client) => {
    const index = await toBeMade(client, values);
    const lock = `drover:memory-index:${of.owner}${of.model}${of.dimensions}`;
    return index !== undefined && makeIndexBesideWriters(client, { lock, ...index });
  });
}

async function makeAlone(db: Database, values: readonly unknown[]): Promise<boolean> {
  const made = await db.asMaintenance((tx) =>
    tx.query<{ made: boolean }>('select ensure_vector_index($3, $1, $2) as made', values),
  );
  return made[0]?.made ?? false;
}

/** The index's name, and the statement that creates it. */
async function toBeMade(
  client: ClientBase,
  values: unknown[],
): Promise<{ name: string; statement: string } | undefined> {
  const { rows } = await client.query<{ name: string; statement: string }>(
    `select n.name, format('create index concurrently %I on %I using hnsw ((embedding::%s(%s)) %s) where embedding_model = %L',
        n.name, $3::text, kind, $2::int, kind || '_cosine_ops', $1::text)
        || case $3::text when 'memory_entries' then ' and status in (''active'', ''disputed'')' else '' end as statement
      from (${STATE}) n, (select case when $2::int > 2000 then 'halfvec' else 'vector' end as kind) k`,
    values,
  );
  return rows[0];
}
