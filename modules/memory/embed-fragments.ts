/** Embeds fragments of spaces: soon after they are written, or when they are searched before that. */
import { LIMITS } from '../../core/limits.ts';
import { nameOfVectors } from '../../core/memory/vector-names.ts';
import { ensureMemoryIndex, readLengths } from '../../db/memory-index.ts';
import { noteEmbeddingSettings } from '../../db/memory-models.ts';
import {
  listUnembeddedFragments,
  storeFragmentEmbeddings,
  type UnembeddedFragment,
} from '../../db/memory-fragments.ts';
import { modelUnder } from '../../llm/embedding-settings.ts';
import { lengthOf, toVector } from '../../llm/embeddings.ts';
import { makeVectors } from './make-vectors.ts';
import type { MemoryContext } from './memory-context.ts';
import { workSoon } from './memory-work.ts';

interface InSpaces {
  tenantId: string;
  spaceIds: readonly string[];
  /** Whether those of the newest are replaced first, for which all that are to be replaced are looked at. */
  newestFirst?: boolean;
}

/**
 * Has a space's fragments embedded; to be called after the commit that wrote them. Reconciliation makes up for lost
 * jobs.
 */
export function embedFragmentsSoon(context: MemoryContext, of: { tenantId: string; spaceId: string }): void {
  if (context.embeddings.modelFor(undefined) === undefined) return;
  workSoon(context, { tenantId: of.tenantId, spaceId: of.spaceId, work: 'embed_fragments' });
}

/**
 * Embeds until none of the space is left, the job has done its part, or `stop` fires; each batch is stored by itself. Returns how
 * many. What is left gets another job, behind those of others.
 */
export async function embedFragments(
  context: MemoryContext,
  { tenantId, spaceId }: { tenantId: string; spaceId: string },
  stop: AbortSignal,
): Promise<{ embedded: number }> {
  const model = context.embeddings.modelFor(undefined);
  if (model === undefined) return { embedded: 0 };
  let embedded = 0;
  while (embedded < LIMITS.embeddedByJob && !stop.aborted) {
    const rows = await freshFragments(context, { tenantId, spaceIds: [spaceId], newestFirst: true }, model);
    if (rows.length === 0) break;
    const texts = rows.map(({ content }) => content);
    const options = { signal: stop, payer: { tenantId, spaceId, purpose: 'memory_embeddings' } } as const;
    const made = await makeVectors(context, { owner: 'memory_fragments', model, texts }, options);
    await storeVectors(context, tenantId, { model, rows, ...made });
    embedded += rows.length;
  }
  return { embedded };
}

/** Whether some of the space's fragments are to be embedded. */
export async function spaceLacksVectors(
  context: MemoryContext,
  { tenantId, spaceId }: { tenantId: string; spaceId: string },
): Promise<boolean> {
  const model = context.embeddings.modelFor(undefined);
  return model !== undefined && (await freshFragments(context, { tenantId, spaceIds: [spaceId] }, model)).length > 0;
}

/**
 * The next fragments without a vector, with one of a model that no process uses any more or of a length that it does not give any
 * more, or refused by such a model.
 */
export async function freshFragments(
  { db, embeddings }: Pick<MemoryContext, 'db' | 'embeddings'>,
  { tenantId, ...spaces }: InSpaces,
  model: string,
): Promise<UnembeddedFragment[]> {
  const { given, first } = await readLengths(db, { owner: 'memory_fragments', model });
  const name = given === undefined ? model : nameOfVectors(model, given, first);
  const list = (kept: readonly string[]) => {
    const of = { ...spaces, model, name, kept, limit: LIMITS.embeddedTogether };
    return db.withTenant(tenantId, (tx) => listUnembeddedFragments(tx, of));
  };
  const listed = await list([]);
  if (listed.length === 0) return [];
  // A process that embeds announces its settings.
  const others = await noteEmbeddingSettings(db, embeddings.settings, LIMITS.embeddingSettingsMs);
  if (listed.every((row) => row.model === null)) return listed;
  return list(others.flatMap((each) => modelUnder(each, undefined) ?? []).filter((each) => each !== model));
}

/** Stores vectors of fragments that are unchanged since, under a name; undefined for a text that the model refuses. */
export async function storeVectors(
  { db }: Pick<MemoryContext, 'db'>,
  tenantId: string,
  {
    model,
    name = model,
    rows,
    vectors,
  }: {
    model: string;
    name?: string;
    rows: readonly UnembeddedFragment[];
    vectors: readonly (number[] | undefined)[];
  },
): Promise<void> {
  if (rows.length === 0) return;
  await ensureMemoryIndex(db, { owner: 'memory_fragments', model: name, dimensions: lengthOf(vectors) });
  const stored = rows.map(({ id, content }, index) => ({ id, content, vector: toVector(vectors[index]) }));
  await db.withTenant(tenantId, (tx) => storeFragmentEmbeddings(tx, { model, name, rows: stored }));
}
