/** How well the best sentence of an entry matches a question: words close together say more than the same words far apart. Pure. */

import { hasUnspaced } from './words.ts';

/** Code blocks are not sentences. */
const CODE = /```[\s\S]*?(?:```|$)/g;
const ENDS = /[.!?]\s+|[。！？\n]+/;

/** Only this much of longer texts is examined. */
const MOST_CHARS = 8000;

interface Passage {
  /** Share, by weight, of the question's words in the best sentence. */
  share: number;
  /** Words of the question found in any sentence, with their weights. */
  found: ReadonlyMap<string, number>;
}

/** `words`: stems with their weights. */
export function readPassage(content: string, words: ReadonlyMap<string, number>): Passage {
  const most = weightOf(words);
  const found = new Map<string, number>();
  if (most <= 0) return { share: 0, found };
  const stems = [...words].map(([stem, weight]) => ({
    stem,
    weight,
    beginning: beginningOf(stem),
    isUnspaced: hasUnspaced(stem),
  }));
  const prose = content.slice(0, MOST_CHARS).replaceAll(CODE, '\n').toLowerCase();
  const shares = prose.split(ENDS).map((sentence) => {
    const own = stems.filter(({ beginning, isUnspaced }) =>
      isUnspaced ? sentence.includes(beginning) : hasWord(sentence, beginning),
    );
    for (const { stem, weight } of own) found.set(stem, weight);
    return own.reduce((sum, { weight }) => sum + weight, 0) / most;
  });
  return { share: Math.min(1, Math.max(0, ...shares)), found };
}

/** Sum of all weights. */
export function weightOf(words: ReadonlyMap<string, number>): number {
  return [...words.values()].reduce((sum, weight) => sum + weight, 0);
}

/** The common prefix of all forms of a stem: `studi` matches `study` and `studies`. */
function beginningOf(stem: string): string {
  return stem.length > 3 && stem.endsWith('i') ? stem.slice(0, -1) : stem;
}

function hasWord(sentence: string, beginning: string): boolean {
  for (let at = sentence.indexOf(beginning); at >= 0; at = sentence.indexOf(beginning, at + 1)) {
    if (at === 0 || !isOfWord(sentence.charCodeAt(at - 1))) return true;
  }
  return false;
}

const LETTER = /[\p{L}\p{N}]/u;

function isOfWord(code: number): boolean {
  if (code < 128) return (code >= 97 && code <= 122) || (code >= 48 && code <= 57);
  return LETTER.test(String.fromCharCode(code));
}
