/** Embedding models of agents' memories: which entries lack the current one, and how processes embed. */
import { refusalBy, withLength } from '../core/memory/vector-names.ts';
import type { Database, Tx } from './database.ts';
import { LIVE } from './memory-entries.ts';
import { shareMemoryOf } from './memory-lock.ts';

/** A process's embedding settings. */
export interface EmbeddingSettings {
  /** The default model: `offline`, `off`, or `openai/…`. */
  model: string;
  /** Whether it has a provider's key. */
  has_key: boolean;
}

/** Announces this process's settings; returns those of others that announced them recently. */
export async function noteEmbeddingSettings(
  db: Database,
  own: EmbeddingSettings,
  withinMs: number,
): Promise<EmbeddingSettings[]> {
  const { model, has_key: hasKey } = own;
  return db.asMaintenance(async (tx) => {
    // Once a minute suffices; skips a row locked by others.
    await tx.query(
      `insert into embedding_settings as s (model, has_key, seen_at) values ($1, $2, now())
         on conflict (model, has_key) do update set seen_at = now() where s.seen_at < now() - interval '1 minute'`,
      [model, hasKey],
    );
    return tx.query<EmbeddingSettings>(
      `select model, has_key from embedding_settings
        where (model, has_key) <> ($1, $2::boolean) and seen_at > now() - $3 * interval '1 ms'`,
      [model, hasKey, withinMs],
    );
  });
}

/** The model that agents want, and the name that is stored as the model of their vectors or of refused texts. */
export interface ModelPair {
  /** Empty if they name none. */
  wanted: string;
  model: string;
}

/** All such pairs: few, however many agents there are. */
export async function listModelPairs(db: Database, limit: number): Promise<ModelPair[]> {
  return db.asMaintenance((tx) =>
    tx.query<ModelPair>(
      `with recursive pairs as (
         (select wanted, model from memory_models order by wanted, model limit 1)
         union all
         select n.wanted, n.model from pairs p cross join lateral (select wanted, model from memory_models m
           where (m.wanted, m.model) > (p.wanted, p.model) order by m.wanted, m.model limit 1) n)
       select wanted, model from pairs limit $1`,
      [limit],
    ),
  );
}

/** Records that an agent wants another model, or none. */
export async function noteWantedModel(tx: Tx, of: { agentId: string; wanted: string | undefined }): Promise<void> {
  await tx.query('update memory_models set wanted = $2, tried_at = null where agent_id = $1 and wanted <> $2', [
    of.agentId,
    of.wanted ?? '',
  ]);
}

/** Condition on an entry or a fragment: its model refuses it. */
export const REFUSED = 'embedding is null and embedding_model is not null';

/** The names of the models of an agent's live entries, and of those that refuse some; deletes records of others. */
export async function readModels(tx: Tx, agentId: string): Promise<string[]> {
  const next = (entries: string) => `select embedding_model as model from memory_entries
    where agent_id = $1 and ${entries} and ${LIVE} and embedding_model > found.model order by embedding_model limit 1`;
  const names = (entries: string) => `(with recursive found as (
     select ''::text as model union all select n.model from found cross join lateral (${next(entries)}) n) select model from found where model <> '')`;
  const rows = await tx.query<{ model: string }>(
    `with found as materialized (${names('embedding is not null')} union all ${names(REFUSED)}),
     gone as (delete from memory_models where agent_id = $1 and model not in (select model from found))
     select model from found`,
    [agentId],
  );
  return rows.map(({ model }) => model);
}

/** As an expression, the length of an agent's vectors of a model. */
export const lengthOfVectors = (agent: string, model: string): string =>
  `(select vector_dims(embedding) from memory_entries
     where agent_id = ${agent} and embedding_model = ${model} and embedding is not null and ${LIVE} limit 1)`;

/** The length of an agent's vectors of a model; undefined if it has none. */
export async function readLengthOf(
  tx: Tx,
  { agentId, model }: { agentId: string; model: string },
): Promise<number | undefined> {
  const [row] = await tx.query<{ length: number | null }>(`select ${lengthOfVectors('$1', '$2')} as length`, [
    agentId,
    model,
  ]);
  return row?.length ?? undefined;
}

/**
 * The name under which an agent has vectors of a model that can be compared with one of so many dimensions; undefined if all are
 * of other lengths.
 */
export async function findComparable(
  tx: Tx,
  { agentId, model, dimensions }: { agentId: string; model: string; dimensions: number },
): Promise<string | undefined> {
  const stored = await readLengthOf(tx, { agentId, model });
  if (stored === dimensions) return model;
  const name = withLength(model, dimensions);
  if ((await readLengthOf(tx, { agentId, model: name })) !== undefined) return name;
  return stored === undefined ? model : undefined;
}

/** Records that replacing the vectors of these models has begun. */
export async function noteTried(tx: Tx, of: { agentId: string; models: readonly string[] }): Promise<void> {
  await tx.query('update memory_models set tried_at = now() where agent_id = $1 and model = any($2::text[])', [
    of.agentId,
    of.models,
  ]);
}

/** Entries of the agent without a vector, then those with one of a `replaced` name, newest first, and those with a refusal of one. */
export async function listUnembedded(
  tx: Tx,
  of: { agentId: string; replaced: readonly string[]; limit: number },
): Promise<{ id: string; content: string }[]> {
  return tx.query(
    `(select id, content from memory_entries where agent_id = $1 and embedding_model is null and ${LIVE} order by id limit $3)
     union all
     (select id, content from memory_entries where agent_id = $1 and embedding is not null and ${LIVE}
        and embedding_model = any($2::text[]) order by id desc limit $3)
     union all
     (select id, content from memory_entries where agent_id = $1 and ${REFUSED} and ${LIVE}
        and embedding_model = any($2::text[]) order by id desc limit $3)
     limit $3`,
    [of.agentId, of.replaced, of.limit],
  );
}

/** Stores vectors in pgvector's notation under a name, or a refusal by the model. Skips entries whose text is gone. */
export async function storeEmbeddings(
  tx: Tx,
  of: {
    tenantId: string;
    agentId: string;
    model: string;
    name: string;
    wanted: string | undefined;
    rows: readonly { id: string; vector: string | null }[];
  },
): Promise<void> {
  const refusal = refusalBy(of.model);
  const names = [...new Set(of.rows.map(({ vector }) => (vector === null ? refusal : of.name)))];
  await tx.query(
    `insert into memory_models as m (agent_id, model, tenant_id, wanted) select $1::uuid, name, $3::uuid, $4 from unnest($2::text[]) name
       on conflict (agent_id, model) do update set wanted = excluded.wanted where m.wanted <> excluded.wanted`,
    [of.agentId, names.toSorted(), of.tenantId, of.wanted ?? ''],
  );
  await shareMemoryOf(tx, of.agentId);
  await tx.query(
    `update memory_entries e set embedding = r.vector::vector, embedding_model = case when r.vector is null then $3 else $1 end from (
        select e.id, r.vector from jsonb_to_recordset($2::jsonb) as r (id uuid, vector text)
          join memory_entries e on e.id = r.id and e.${LIVE} order by e.id for no key update of e) r
      where e.id = r.id`,
    [of.name, JSON.stringify(of.rows), refusal],
  );
}
