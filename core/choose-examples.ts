/** Which worked examples a model is shown where an agent has many: those whose words a question has. */
import { wordsOf } from './memory/words.ts';

/** BM25's usual saturation of a word's count, and how much a long text counts for less. */
const K1 = 1.2;
const B = 0.75;

/**
 * The `most` examples that fit a question best, in their own order; all of them where there are no more. Of those that fit
 * alike the first ones are taken. The same question gives the same examples: a turn's requests begin alike.
 */
export function chooseExamples(examples: readonly string[], question: string, most: number): string[] {
  if (examples.length <= most) return [...examples];
  const asked = new Set(wordsOf(question));
  const texts = examples.map((text) => countWords(text));
  const length = texts.reduce((sum, { total }) => sum + total, 0) / texts.length;
  const scores = texts.map(({ counts, total }) => {
    const norm = K1 * (1 - B + (B * total) / Math.max(1, length));
    const parts = [...asked].map((word) => {
      const count = counts.get(word) ?? 0;
      return (rarity(texts, word) * count * (K1 + 1)) / (count + norm);
    });
    return parts.reduce((sum, part) => sum + part, 0);
  });
  const places = examples.map((_, place) => place);
  const best = places.toSorted((left, right) => (scores[right] ?? 0) - (scores[left] ?? 0) || left - right);
  const chosen = new Set(best.slice(0, most));
  return examples.filter((_, place) => chosen.has(place));
}

interface Words {
  counts: Map<string, number>;
  total: number;
}

function countWords(text: string): Words {
  const words = wordsOf(text);
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return { counts, total: words.length };
}

/** A word that few texts have says more. */
function rarity(texts: readonly Words[], word: string): number {
  const having = texts.filter(({ counts }) => counts.has(word)).length;
  return Math.log(1 + (texts.length - having + 0.5) / (having + 0.5));
}
