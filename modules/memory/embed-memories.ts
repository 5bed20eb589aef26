/** Embeds an agent's memories: new ones, and all of them after a change of its model. */
import { LIMITS } from '../../core/limits.ts';
import { findAgent } from '../../db/agents.ts';
import { ensureMemoryIndex, readLengths } from '../../db/memory-index.ts';
import {
  listUnembedded,
  noteEmbeddingSettings,
  noteTried,
  noteWantedModel,
  readLengthOf,
  readModels,
  storeEmbeddings,
} from '../../db/memory-models.ts';
import type { Tx } from '../../db/database.ts';
import { replaces } from '../../llm/embedding-settings.ts';
import { lengthOf, toVector } from '../../llm/embeddings.ts';
import { makeVectors } from './make-vectors.ts';
import type { MemoryContext } from './memory-context.ts';

interface Owner {
  tenantId: string;
  agentId: string;
}

/**
 * Embeds until none is left, the job has done its part, or `stop` fires; each batch is stored by itself. Returns how many. What
 * is left gets another job, behind those of others.
 */
export async function embedMemories(
  context: MemoryContext,
  owner: Owner,
  stop: AbortSignal,
): Promise<{ embedded: number }> {
  let embedded = 0;
  while (embedded < LIMITS.embeddedByJob && !stop.aborted) {
    const done = await embedBatch(context, owner, stop);
    embedded += done;
    if (done === 0) break;
  }
  return { embedded };
}

/** Whether some of the agent's entries are to be embedded. */
export async function lacksVectors(context: MemoryContext, owner: Owner): Promise<boolean> {
  return ((await nextBatch(context, owner))?.rows.length ?? 0) > 0;
}

/** The model for an agent's memories; undefined if none is used or the agent is gone. */
export async function modelOf(context: MemoryContext, owner: Owner): Promise<string | undefined> {
  return (await context.db.withTenant(owner.tenantId, (tx) => findModel(context, tx, owner))).model;
}

async function findModel(
  { embeddings }: Pick<MemoryContext, 'embeddings'>,
  tx: Tx,
  { agentId }: Owner,
): Promise<{ wanted: string | undefined; model: string | undefined }> {
  const agent = await findAgent(tx, agentId);
  const wanted = agent?.definition.memory_config?.long_term?.embedding_model;
  return { wanted, model: agent && embeddings.modelFor(wanted) };
}

/** The model is looked up each time, as it may change during the job. */
async function nextBatch(context: MemoryContext, owner: Owner) {
  const { db, embeddings } = context;
  const { tenantId, agentId } = owner;
  const others = await noteEmbeddingSettings(db, embeddings.settings, LIMITS.embeddingSettingsMs);
  const { wanted, model } = await db.withTenant(tenantId, (tx) => findModel(context, tx, owner));
  if (model === undefined) return undefined;
  const of = await readLengths(db, { owner: 'memory_entries', model });
  return db.withTenant(tenantId, async (tx) => {
    const lengths = { ...of, first: of.first ?? (await readLengthOf(tx, { agentId, model })) };
    await noteWantedModel(tx, { agentId, wanted });
    const names = await readModels(tx, agentId);
    const replaced = names.filter((each) => replaces(embeddings.settings, others, { wanted, model: each, lengths }));
    await noteTried(tx, { agentId, models: replaced });
    const rows = await listUnembedded(tx, { agentId, replaced, limit: LIMITS.embeddedTogether });
    return { wanted, model, first: lengths.first, rows };
  });
}

/** Embeds one batch. */
async function embedBatch(context: MemoryContext, owner: Owner, stop: AbortSignal): Promise<number> {
  const { db } = context;
  const batch = await nextBatch(context, owner);
  if (batch === undefined || batch.rows.length === 0) return 0;
  const { wanted, model, first, rows } = batch;
  const texts = rows.map(({ content }) => content);
  const { name, vectors } = await makeVectors(
    context,
    { owner: 'memory_entries', model, texts, first },
    { signal: stop, payer: { ...owner, purpose: 'memory_embeddings' } },
  );
  await ensureMemoryIndex(db, { owner: 'memory_entries', model: name, dimensions: lengthOf(vectors) });
  const stored = rows.map(({ id }, index) => ({ id, vector: toVector(vectors[index]) }));
  await db.withTenant(owner.tenantId, (tx) => storeEmbeddings(tx, { ...owner, model, name, wanted, rows: stored }));
  return rows.length;
}
