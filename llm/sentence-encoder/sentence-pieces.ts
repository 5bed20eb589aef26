/**
 * Splits texts into the word pieces of Universal Sentence Encoder by a unigram model, like the package, but only as far
 * as needed.
 */

/** A piece and the logarithm of its frequency. */
export type Vocabulary = readonly (readonly [piece: string, score: number | null])[];

/** The first entries of the vocabulary stand for no text. */
const RESERVED = 6;
const UNKNOWN = 0;
const SPACE = '\u2581';

/** Returns a function that gives the ids of a text's first `most` pieces. */
export function createPieces(vocabulary: Vocabulary, most: number): (text: string) => number[] {
  const known = new Map(vocabulary.map(([piece], index) => [piece, index] as const).slice(RESERVED));
  const longest = Math.max(...vocabulary.map(([piece]) => Array.from(piece).length));
  const scoreOf = (id: number) => vocabulary[id]?.[1] ?? 0;
  const lengthOf = (id: number) => vocabulary[id]?.[0].length ?? 1;

  /** Ids and lengths of pieces that start at this place of a word, shortest first. */
  const matchesAt = (symbols: readonly string[], start: number): [id: number, length: number][] => {
    const found: [number, number][] = [];
    let piece = '';
    for (let end = start; end < Math.min(symbols.length, start + longest); end++) {
      piece += symbols[end];
      const id = known.get(piece);
      if (id !== undefined) found.push([id, end + 1 - start]);
    }
    return found.length > 0 ? found : [[UNKNOWN, 1]];
  };

  /** The best split of a word; `from` is the score before it. No piece extends beyond a space. */
  const split = (symbols: readonly string[], from: number): { ids: number[]; score: number } => {
    const best = [from, ...symbols.map(() => 0)];
    const last = best.map(() => UNKNOWN);
    symbols.forEach((_, start) => {
      for (const [id, length] of matchesAt(symbols, start)) {
        const end = start + length;
        const score = (id === UNKNOWN ? 0 : scoreOf(id)) + (best[start] ?? 0);
        if (best[end] !== 0 && score < (best[end] ?? 0)) continue;
        best[end] = score;
        last[end] = id;
      }
    });
    const ids: number[] = [];
    for (let end = symbols.length; end > 0; end -= lengthOf(last[end] ?? UNKNOWN)) ids.push(last[end] ?? UNKNOWN);
    return { ids: ids.toReversed(), score: best.at(-1) ?? 0 };
  };

  return (text) => {
    const normalized = text.normalize('NFKC');
    if (normalized.length === 0) return [];
    const pieces: number[] = [];
    let score = 0;
    for (const [word] of (SPACE + normalized.replaceAll(' ', SPACE)).matchAll(WORD)) {
      const parts = split(Array.from(word), score);
      score = parts.score;
      // Consecutive unknown pieces count once.
      for (const id of parts.ids) if (id !== UNKNOWN || pieces.at(-1) !== UNKNOWN) pieces.push(id);
      if (pieces.length >= most) return pieces.slice(0, most);
    }
    return pieces;
  };
}

const WORD = new RegExp(`${SPACE}[^${SPACE}]*`, 'gu');
