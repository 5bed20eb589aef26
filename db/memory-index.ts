/** The index of nearest neighbours that each embedding model in use has. */
import type { ClientBase } from 'pg';
import type { Database } from './database.ts';

export interface VectorModel {
  model: string;
  dimensions: number;
}

/** The name that an index has is made in the database, as `ensure_memory_index` makes it. */
const STATE = `select n.name, i.indisvalid as valid from (select 'memory_entries_near_' || substr(md5($1 || $2::int), 1, 12) as name) n
  left join pg_index i on i.indexrelid = to_regclass(n.name)`;

const LOCK = `hashtextextended('drover:memory-index:' || $1 || $2::int, 0)`;

/**
 * Makes the index for a model that has none, without holding up whoever writes; answers whether it was missing. Where another
 * process is making it, nobody waits: until it is there, vectors are compared one by one.
 */
export async function ensureMemoryIndex(db: Database, of: VectorModel): Promise<boolean> {
  if (of.dimensions < 1 || of.dimensions > 4000) return false;
  if (of.model === 'offline' && of.dimensions === 512) return false;
  const values = [of.model, of.dimensions];
  const [known] = await db.asMaintenance((tx) => tx.query<{ valid: boolean | null }>(STATE, values));
  if (known?.valid) return false;
  // One session: nobody writes beside it.
  if (db.kind === 'pglite') return makeAlone(db, values);
  return db.asOwner((client) => makeBesideOthers(client, values));
}

async function makeAlone(db: Database, values: readonly unknown[]): Promise<boolean> {
  const made = await db.asMaintenance((tx) =>
    tx.query<{ made: boolean }>('select ensure_memory_index($1, $2) as made', values),
  );
  return made[0]?.made ?? false;
}

/** Outside of any transaction. What a process that was killed has left behind is not valid, and goes first. */
async function makeBesideOthers(client: ClientBase, values: unknown[]): Promise<boolean> {
  const locked = await client.query<{ ours: boolean }>(`select pg_try_advisory_lock(${LOCK}) as ours`, values);
  if (!locked.rows[0]?.ours) return false;
  await client.query(`set lock_timeout = '10s'; set statement_timeout = '2h'`);
  const [state] = (await client.query<{ name: string; valid: boolean | null }>(STATE, values)).rows;
  if (!state || state.valid) return false;
  if (state.valid === false) await client.query(`drop index concurrently if exists ${state.name}`);
  const { rows } = await client.query<{ statement: string }>(
    `select format('create index concurrently %I on memory_entries using hnsw ((embedding::%s(%s)) %s)
        where embedding_model = %L and status in (''active'', ''disputed'')',
        $3::text, kind, $2::int, kind || '_cosine_ops', $1::text) as statement
      from (select case when $2::int > 2000 then 'halfvec' else 'vector' end as kind) k`,
    [...values, state.name],
  );
  await client.query(rows[0]?.statement ?? '');
  return true;
}
