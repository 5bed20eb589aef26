/** Embeds fragments of spaces: soon after they are written, or when they are searched before that. */
import { LIMITS } from '../../core/limits.ts';
import { ensureMemoryIndex, readVectorLength } from '../../db/memory-index.ts';
import { noteEmbeddingSettings } from '../../db/memory-models.ts';
import {
  listUnembeddedFragments,
  storeFragmentEmbeddings,
  type UnembeddedFragment,
} from '../../db/memory-fragments.ts';
import { modelUnder } from '../../llm/embedding-settings.ts';
import { lengthOf, toVector } from '../../llm/embeddings.ts';
import type { MemoryContext } from './memory-context.ts';
import { workSoon } from './memory-work.ts';

interface InSpaces {
  tenantId: string;
  spaceIds: readonly string[];
}

/**
 * Has a space's fragments embedded; to be called after the commit that wrote them. Reconciliation makes up for lost
 * jobs.
 */
export function embedFragmentsSoon(context: MemoryContext, of: { tenantId: string; spaceId: string }): void {
  if (context.embeddings.modelFor(undefined) === undefined) return;
  workSoon(context, { tenantId: of.tenantId, spaceId: of.spaceId, work: 'embed_fragments' });
}

/** Embeds until none of the space is left or `stop` fires; each batch is stored by itself. Returns how many. */
export async function embedFragments(
  context: MemoryContext,
  { tenantId, spaceId }: { tenantId: string; spaceId: string },
  stop: AbortSignal,
): Promise<{ embedded: number }> {
  const model = context.embeddings.modelFor(undefined);
  for (let embedded = 0; ;) {
    const of = { tenantId, spaceIds: [spaceId] };
    const rows = stop.aborted || model === undefined ? [] : await freshFragments(context, of, model);
    if (model === undefined || rows.length === 0) return { embedded };
    const texts = rows.map(({ content }) => content);
    const dimensions = await readVectorLength(context.db, { owner: 'memory_fragments', model });
    const vectors = await context.embeddings.embedEach(model, texts, { signal: stop, dimensions });
    await storeVectors(context, tenantId, { model, rows, vectors });
    embedded += rows.length;
  }
}

/** Whether some of the space's fragments are to be embedded. */
export async function spaceLacksVectors(
  context: MemoryContext,
  { tenantId, spaceId }: { tenantId: string; spaceId: string },
): Promise<boolean> {
  const model = context.embeddings.modelFor(undefined);
  return model !== undefined && (await freshFragments(context, { tenantId, spaceIds: [spaceId] }, model)).length > 0;
}

/** The next fragments without a vector, or with one of a model that no process uses any more. */
export async function freshFragments(
  { db, embeddings }: Pick<MemoryContext, 'db' | 'embeddings'>,
  { tenantId, spaceIds }: InSpaces,
  model: string,
): Promise<UnembeddedFragment[]> {
  const list = (kept: readonly string[]) => {
    const of = { spaceIds, model, kept, limit: LIMITS.embeddedTogether };
    return db.withTenant(tenantId, (tx) => listUnembeddedFragments(tx, of));
  };
  const listed = await list([]);
  if (listed.length === 0) return [];
  // A process that embeds announces its settings.
  const others = await noteEmbeddingSettings(db, embeddings.settings, LIMITS.embeddingSettingsMs);
  if (listed.every((row) => row.model === null)) return listed;
  return list(others.flatMap((each) => modelUnder(each, undefined) ?? []));
}

/** Stores vectors of fragments that are unchanged since; undefined for a text that the model refuses. */
export async function storeVectors(
  { db }: Pick<MemoryContext, 'db'>,
  tenantId: string,
  {
    model,
    rows,
    vectors,
  }: { model: string; rows: readonly UnembeddedFragment[]; vectors: readonly (number[] | undefined)[] },
): Promise<void> {
  if (rows.length === 0) return;
  await ensureMemoryIndex(db, { owner: 'memory_fragments', model, dimensions: lengthOf(vectors) });
  const stored = rows.map(({ id, content }, index) => ({ id, content, vector: toVector(vectors[index]) }));
  await db.withTenant(tenantId, (tx) => storeFragmentEmbeddings(tx, { model, rows: stored }));
}
