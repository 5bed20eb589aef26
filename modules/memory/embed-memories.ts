/** Embeds an agent's memories: new ones, and all of them after a change of its model. */
import { LIMITS } from '../../core/limits.ts';
import { findAgent } from '../../db/agents.ts';
import { ensureMemoryIndex, readVectorLength } from '../../db/memory-index.ts';
import {
  listUnembedded,
  noteEmbeddingSettings,
  noteTried,
  noteWantedModel,
  readModels,
  storeEmbeddings,
} from '../../db/memory-models.ts';
import type { Tx } from '../../db/database.ts';
import { replaces } from '../../llm/embedding-settings.ts';
import { lengthOf, toVector } from '../../llm/embeddings.ts';
import type { MemoryContext } from './memory-context.ts';

interface Owner {
  tenantId: string;
  agentId: string;
}

/** Embeds until none is left or `stop` fires; each batch is stored by itself. Returns how many. */
export async function embedMemories(
  context: MemoryContext,
  owner: Owner,
  stop: AbortSignal,
): Promise<{ embedded: number }> {
  for (let embedded = 0; ;) {
    const done = stop.aborted ? 0 : await embedBatch(context, owner, stop);
    embedded += done;
    if (done === 0) return { embedded };
  }
}

/** Whether some of the agent's entries are to be embedded. */
export async function lacksVectors(context: MemoryContext, owner: Owner): Promise<boolean> {
  return (await nextBatch(context, owner)).rows.length > 0;
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
  return db.withTenant(tenantId, async (tx) => {
    const now = await findModel(context, tx, owner);
    if (now.model === undefined) return { ...now, rows: [] };
    await noteWantedModel(tx, { agentId, wanted: now.wanted });
    const models = await readModels(tx, agentId);
    const replaced = models.filter((each) => replaces(embeddings.settings, others, { ...now, model: each }));
    await noteTried(tx, { agentId, models: replaced });
    return { ...now, rows: await listUnembedded(tx, { agentId, replaced, limit: LIMITS.embeddedTogether }) };
  });
}

/** Embeds one batch. */
async function embedBatch(context: MemoryContext, owner: Owner, stop: AbortSignal): Promise<number> {
  const { db, embeddings } = context;
  const { wanted, model, rows } = await nextBatch(context, owner);
  if (rows.length === 0 || model === undefined) return 0;
  const texts = rows.map(({ content }) => content);
  const dimensions = await readVectorLength(db, { owner: 'memory_entries', model });
  const vectors = await embeddings.embedEach(model, texts, { signal: stop, dimensions });
  await ensureMemoryIndex(db, { owner: 'memory_entries', model, dimensions: lengthOf(vectors) });
  const stored = rows.map(({ id }, index) => ({ id, vector: toVector(vectors[index]) }));
  await db.withTenant(owner.tenantId, (tx) => storeEmbeddings(tx, { ...owner, model, wanted, rows: stored }));
  return rows.length;
}
