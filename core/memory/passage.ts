/** How much of a question one sentence of an entry has: words that stand together say more than the same words far apart. Pure. */

/** Code stands for itself, and is no sentence. */
const CODE = /```[\s\S]*?(?:```|$)/g;
const ENDS = /[.!?]\s+|\n+/;

/** Longer texts are looked at up to here. */
const MOST_CHARS = 8000;

/** The share that the best sentence has of the words of a question, by their weights. `words` are stems. */
export function passageSignal(content: string, words: ReadonlyMap<string, number>): number {
  const stems = [...words].map(([stem, weight]) => [beginningOf(stem), weight] as const);
  const most = stems.reduce((sum, [, weight]) => sum + weight, 0);
  if (most <= 0) return 0;
  const prose = content.slice(0, MOST_CHARS).replaceAll(CODE, '\n').toLowerCase();
  const shares = prose.split(ENDS).map((sentence) => {
    const found = stems.filter(([stem]) => hasWord(sentence, stem));
    return found.reduce((sum, [, weight]) => sum + weight, 0) / most;
  });
  return Math.min(1, Math.max(0, ...shares));
}

/** What all forms of a stem begin with: `studi` stands for `study` and `studies`. */
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
