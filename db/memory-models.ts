/** Vectors of agents' memories: who lacks one of the model that is wanted now, and how processes embed. */
import type { Database, Tx } from './database.ts';
import { LIVE } from './memory-entries.ts';
import { shareMemoryOf } from './memory-lock.ts';

/** How a process embeds. */
export interface EmbeddingSettings {
  /** Where an agent names none: `offline`, `off`, or `openai/…`. */
  model: string;
  /** Whether it can ask a provider. */
  has_key: boolean;
}

/** Says how this process embeds; answers how others do that have said so lately. */
export async function noteEmbeddingSettings(
  db: Database,
  own: EmbeddingSettings,
  withinMs: number,
): Promise<EmbeddingSettings[]> {
  const { model, has_key: hasKey } = own;
  return db.asMaintenance(async (tx) => {
    // Once a minute is enough, and nobody waits for the row of another.
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

/** What agents name, and what they have vectors of. */
export interface ModelPair {
  /** Empty where they name none. */
  wanted: string;
  model: string;
}

/** All pairs that there are: few, however many agents have them. */
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

/** An agent names another model now, or none. */
export async function noteWantedModel(tx: Tx, of: { agentId: string; wanted: string | undefined }): Promise<void> {
  await tx.query('update memory_models set wanted = $2, tried_at = null where agent_id = $1 and wanted <> $2', [
    of.agentId,
    of.wanted ?? '',
  ]);
}

/** The models that live entries of the agent have vectors of; those alone are noted any more. */
export async function readModels(tx: Tx, agentId: string): Promise<string[]> {
  const rows = await tx.query<{ model: string }>(
    `with recursive found as (
       (select embedding_model as model from memory_entries where agent_id = $1 and embedding is not null and ${LIVE}
         order by embedding_model limit 1)
       union all
       select n.model from found f cross join lateral (select embedding_model as model from memory_entries
         where agent_id = $1 and embedding is not null and ${LIVE} and embedding_model > f.model order by embedding_model limit 1) n),
     gone as (delete from memory_models where agent_id = $1 and model not in (select model from found))
     select model from found`,
    [agentId],
  );
  return rows.map(({ model }) => model);
}

/** Somebody begins to replace vectors of these models. */
export async function noteTried(tx: Tx, of: { agentId: string; models: readonly string[] }): Promise<void> {
  await tx.query('update memory_models set tried_at = now() where agent_id = $1 and model = any($2::text[])', [
    of.agentId,
    of.models,
  ]);
}

/** Entries of the agent without a vector, then those with one of a model that is `replaced`. */
export async function listUnembedded(
  tx: Tx,
  of: { agentId: string; replaced: readonly string[]; limit: number },
): Promise<{ id: string; content: string }[]> {
  return tx.query(
    `(select id, content from memory_entries where agent_id = $1 and embedding_model is null and ${LIVE} order by id limit $3)
     union all
     (select id, content from memory_entries where agent_id = $1 and embedding is not null and ${LIVE}
        and embedding_model = any($2::text[]) limit $3)
     limit $3`,
    [of.agentId, of.replaced, of.limit],
  );
}

/** Stores vectors, as pgvector writes them. An entry whose text has gone meanwhile is left alone. */
export async function storeEmbeddings(
  tx: Tx,
  of: {
    tenantId: string;
    agentId: string;
    model: string;
    wanted: string | undefined;
    rows: readonly { id: string; vector: string }[];
  },
): Promise<void> {
  await tx.query(
    `insert into memory_models as m (agent_id, model, tenant_id, wanted) values ($1, $2, $3, $4)
       on conflict (agent_id, model) do update set wanted = excluded.wanted where m.wanted <> excluded.wanted`,
    [of.agentId, of.model, of.tenantId, of.wanted ?? ''],
  );
  await shareMemoryOf(tx, of.agentId);
  await tx.query(
    `update memory_entries e set embedding = r.vector::vector, embedding_model = $1 from (
        select e.id, r.vector from jsonb_to_recordset($2::jsonb) as r (id uuid, vector text)
          join memory_entries e on e.id = r.id and e.${LIVE} order by e.id for no key update of e) r
      where e.id = r.id`,
    [of.model, JSON.stringify(of.rows)],
  );
}
