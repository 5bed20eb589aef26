/** Embeds texts although the model refuses some of them, such as one that is too long for it. */
import type { EmbedOptions, EmbedTexts } from './embed-texts.ts';

/** The model does not take these texts, however often it is asked. */
export class TextsRefused extends Error {}

const PROBE = 'A text that every model takes.';

/** A vector for each text, in their order; undefined for one that the model refuses. Empty texts are not sent to it. */
export async function embedEach(
  embed: EmbedTexts,
  texts: readonly string[],
  options: EmbedOptions,
): Promise<(number[] | undefined)[]> {
  const sent = texts.filter(hasContent);
  const vectors = await embedHalves(embed, sent, options);
  // Else it is the model or its server that is wrong.
  if (sent.length > 0 && vectors.every((vector) => vector === undefined)) await mustTake(embed, options);
  const next = vectors.values();
  return texts.map((text) => (hasContent(text) ? next.next().value : undefined));
}

async function mustTake(embed: EmbedTexts, options: EmbedOptions): Promise<void> {
  const vectors = await embed([PROBE], options);
  if (!vectors.every(isSound)) throw new Error('The embedding model gives vectors that nothing can be compared with.');
}

/** Whether a vector has numbers, as they are stored (32 bits), and a direction. */
function isSound(vector: readonly number[]): boolean {
  return vector.some((value) => value !== 0) && vector.every((value) => Number.isFinite(Math.fround(value)));
}

const hasContent = (text: string): boolean => text.trim() !== '';

async function embedHalves(
  embed: EmbedTexts,
  texts: readonly string[],
  options: EmbedOptions,
): Promise<(number[] | undefined)[]> {
  if (texts.length === 0) return [];
  try {
    const vectors = await embed(texts, options);
    if (!vectors.every(isSound))
      throw new TextsRefused('The embedding model gave a vector that nothing can be compared with.');
    return vectors;
  } catch (error) {
    if (!(error instanceof TextsRefused)) throw error;
    if (texts.length === 1) return [undefined];
    const middle = Math.ceil(texts.length / 2);
    const first = await embedHalves(embed, texts.slice(0, middle), options);
    return [...first, ...(await embedHalves(embed, texts.slice(middle), options))];
  }
}
