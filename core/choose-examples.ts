/** Selects the worked examples most similar to a question, for agents with many of them. */
import { wordsOf } from './memory/words.ts';

/** BM25: the usual saturation of word counts and length penalty. */
const K1 = 1.2;
const B = 0.75;
/** Weight of meaning against words when both are known, as in the selection of tools. */
const OF_MEANING = 0.5;
const OF_WORDS = 0.2;

interface AskedExamples {
  question: string;
  /** Number of examples to select. */
  most: number;
  /** Similarity of each example to the question by meaning, from -1 to 1; without it words alone decide. */
  likeness?: readonly number[] | undefined;
}

/** Indexes of the examples that fit a question best, in their own order; all if there are no more than `most`. Equal ones: first come. */
export function chooseExamples(examples: readonly string[], { question, most, likeness }: AskedExamples): number[] {
  const places = examples.map((_, place) => place);
  if (examples.length <= most) return places;
  const byWords = fitByWords(examples, question);
  const best = Math.max(...byWords);
  const scores = likeness
    ? byWords.map((fit, place) => OF_MEANING * (likeness[place] ?? 0) + OF_WORDS * (best > 0 ? fit / best : 0))
    : byWords;
  const sorted = places.toSorted((left, right) => (scores[right] ?? 0) - (scores[left] ?? 0) || left - right);
  return sorted.slice(0, most).toSorted((left, right) => left - right);
}

/** BM25 scores. */
function fitByWords(examples: readonly string[], question: string): number[] {
  const asked = new Set(wordsOf(question));
  const texts = examples.map((text) => countWords(text));
  const length = texts.reduce((sum, { total }) => sum + total, 0) / texts.length;
  return texts.map(({ counts, total }) => {
    const norm = K1 * (1 - B + (B * total) / Math.max(1, length));
    const parts = [...asked].map((word) => {
      const count = counts.get(word) ?? 0;
      return (rarity(texts, word) * count * (K1 + 1)) / (count + norm);
    });
    return parts.reduce((sum, part) => sum + part, 0);
  });
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

/** Inverse document frequency: rarer words count for more. */
function rarity(texts: readonly Words[], word: string): number {
  const having = texts.filter(({ counts }) => counts.has(word)).length;
  return Math.log(1 + (texts.length - having + 0.5) / (having + 0.5));
}
