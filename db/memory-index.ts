/** The index of nearest neighbours that each embedding model in use has. */
import type { ClientBase } from 'pg';
import type { Database } from './database.ts';
import { makeIndexBesideWriters } from './make-index.ts';

interface VectorModel {
  /** The table that has the vectors. */
  owner: 'memory_entries' | 'memory_fragments';
  model: string;
  dimensions: number;
}

/** The name that an index has is made in the database, as `ensure_vector_index` makes it. */
const STATE = `select n.name, i.indisvalid as valid from (select $3::text || '_near_' || substr(md5($1 || $2::int), 1, 12) as name) n
  left join pg_index i on i.indexrelid = to_regclass(n.name)`;

/**
 * Makes the index for a model that has none, without holding up whoever writes; answers whether it was missing. Where another
 * process is making it, nobody waits: until it is there, vectors are compared one by one.
 */
export async function ensureMemoryIndex(db: Database, of: VectorModel): Promise<boolean> {
  if (of.dimensions < 1 || of.dimensions > 4000) return false;
  if (of.model === 'offline' && of.dimensions === 512) return false;
  const values = [of.model, of.dimensions, of.owner];
  const [known] = await db.asMaintenance((tx) => tx.query<{ valid: boolean | null }>(STATE, values));
  if (known?.valid) return false;
  // One session: nobody writes beside it.
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

/** The name that the index has, and the statement that makes it. */
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
