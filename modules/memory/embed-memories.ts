/** Gives an agent's memories their vectors: those that are new, and all of them where the agent's model has changed. */
import { LIMITS } from '../../core/limits.ts';
import { findAgent } from '../../db/agents.ts';
import { listUnembedded, storeEmbeddings } from '../../db/memory-entries.ts';
import { ensureMemoryIndex } from '../../db/memory-index.ts';
import { toVector } from '../../llm/embeddings.ts';
import type { MemoryContext } from './context.ts';

interface Owner {
  tenantId: string;
  agentId: string;
}

/** Works until none is left, or until `stop` fires; answers how many got their vector. Each batch is stored by itself. */
export async function embedMemories(
  context: MemoryContext,
  owner: Owner,
  stop: AbortSignal,
): Promise<{ embedded: number }> {
  const model = await modelOf(context, owner);
  if (model === undefined) return { embedded: 0 };
  for (let embedded = 0; ;) {
    const done = stop.aborted ? 0 : await embedBatch(context, { ...owner, model }, stop);
    embedded += done;
    if (done === 0) return { embedded };
  }
}

/** The model that an agent's memories are embedded with; undefined where none is used, or the agent has gone. */
export async function modelOf(context: MemoryContext, { tenantId, agentId }: Owner): Promise<string | undefined> {
  const agent = await context.db.withTenant(tenantId, (tx) => findAgent(tx, agentId));
  return agent && context.embeddings.modelFor(agent.definition.memory_config?.long_term?.embedding_model);
}

async function embedBatch(
  context: MemoryContext,
  { tenantId, agentId, model }: Owner & { model: string },
  stop: AbortSignal,
): Promise<number> {
  const { db } = context;
  const rows = await db.withTenant(tenantId, (tx) =>
    listUnembedded(tx, { agentId, model, limit: LIMITS.embeddedTogether }),
  );
  if (rows.length === 0) return 0;
  const vectors = await context.embeddings.embed(
    model,
    rows.map(({ content }) => content),
    { signal: stop },
  );
  await ensureMemoryIndex(db, { model, dimensions: vectors[0]?.length ?? 0 });
  const stored = rows.map(({ id }, index) => ({ id, vector: toVector(vectors[index] ?? []) }));
  await db.withTenant(tenantId, (tx) => storeEmbeddings(tx, { model, rows: stored }));
  return rows.length;
}
