/** Compares a question with texts that recur, such as an agent's worked examples. */
import { LRUCache } from 'lru-cache';
import { sha256 } from '../core/ids.ts';
import type { EmbeddingPayer, EmbedOptions } from './embed-texts.ts';

interface Comparison {
  texts: readonly string[];
  question: string;
  signal: AbortSignal;
  payer: EmbeddingPayer;
}

/** Cosines from -1 to 1 in the order of the texts; undefined while their vectors are not ready. */
export type CompareTexts = (model: string, comparison: Comparison) => Promise<number[] | undefined>;

type Embed = (model: string, texts: readonly string[], options: EmbedOptions) => Promise<number[][]>;

/** The most numbers cached: some 80 lists of a hundred texts with Drover's own model. */
const MOST_NUMBERS = 3_000_000;

/**
 * Embeds lists of texts in the background, one list at a time, and caches them by content: callers never wait. A list
 * that is missing or failed is started by the next caller.
 */
export function createComparer(embed: Embed): { compare: CompareTexts; close: () => void } {
  const closing = new AbortController();
  const vectors = new LRUCache<string, Float32Array[]>({
    maxSize: MOST_NUMBERS,
    sizeCalculation: (list) => Math.max(1, list.length * (list[0]?.length ?? 0)),
  });
  const underWay = new Set<string>();
  let last = Promise.resolve();

  const make = async (key: string, model: string, { texts, payer }: Comparison) => {
    try {
      // The list serves other runs as well.
      const made = await embed(model, texts, { signal: closing.signal, payer: { ...payer, runId: undefined } });
      vectors.set(key, made.map(toUnit));
    } finally {
      underWay.delete(key);
    }
  };
  const begin = (key: string, model: string, comparison: Comparison) => {
    if (underWay.has(key)) return;
    underWay.add(key);
    // A failure needs no handling: the next caller finds no vectors.
    last = last.then(() => make(key, model, comparison)).catch(() => undefined);
  };

  return {
    compare: async (model, comparison) => {
      const { texts, question, signal, payer } = comparison;
      const key = keyOf(model, texts);
      const list = vectors.get(key);
      if (!list) {
        begin(key, model, comparison);
        return undefined;
      }
      const [asked = []] = await embed(model, [question], { signal, payer, isWaitedFor: true });
      const unit = toUnit(asked);
      return list.map((each) => dot(each, unit));
    },
    close: () => closing.abort(),
  };
}

function keyOf(model: string, texts: readonly string[]): string {
  return sha256(JSON.stringify([model, ...texts])).toString('base64');
}

function toUnit(vector: readonly number[]): Float32Array {
  const length = Math.hypot(...vector);
  return Float32Array.from(vector, (value) => (length > 0 ? value / length : 0));
}

function dot(left: Float32Array, right: Float32Array): number {
  return left.reduce((sum, value, at) => sum + value * (right[at] ?? 0), 0);
}
