/** Makes the vectors of texts that are to be stored, of one length for each model as long as nothing else lasts. */
import { nameOfVectors, OFFLINE_EMBEDDINGS } from '../../core/memory/vector-names.ts';
import { LIMITS } from '../../core/limits.ts';
import { noteLength, readLengths } from '../../db/memory-index.ts';
import type { EmbedOptions } from '../../llm/embed-texts.ts';
import { lengthOf, OtherLength } from '../../llm/embeddings.ts';
import type { MemoryContext } from './memory-context.ts';

interface Asked {
  owner: 'memory_entries' | 'memory_fragments';
  model: string;
  texts: readonly string[];
  /** The length of vectors that are there under the model's mere name, where no index tells it. */
  first?: number | undefined;
}

/**
 * A vector for each text, undefined for one that the model refuses, and the name to store them under. Rejects if they have
 * another length than those of before, which somebody was given of late: that may pass.
 */
export async function makeVectors(
  { db, embeddings }: Pick<MemoryContext, 'db' | 'embeddings'>,
  { owner, model, texts, ...known }: Asked,
  options: EmbedOptions,
): Promise<{ name: string; vectors: (number[] | undefined)[] }> {
  if (model === OFFLINE_EMBEDDINGS) return { name: model, vectors: await embeddings.embedEach(model, texts, options) };
  const { given, first = known.first } = await readLengths(db, { owner, model });
  const isGiven = async (length: number): Promise<boolean> =>
    (await noteLength(db, { model, length, withinMs: LIMITS.embeddingSettingsMs })) === length;
  const embed = (dimensions: number | undefined) => embeddings.embedEach(model, texts, { ...options, dimensions });
  const vectors = await embed(given ?? first).catch(async (error: unknown) => {
    if (!(error instanceof OtherLength) || !(await isGiven(error.length))) throw error;
    return embed(error.length);
  });
  const length = lengthOf(vectors);
  if (length > 0 && !(await isGiven(length))) throw new OtherLength(model, length, given ?? first);
  return { name: nameOfVectors(model, length, first), vectors };
}
