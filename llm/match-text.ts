/** Matches questions and tools for the offline planner: plain words, no model. */

/** Parts of a text matched by `{name}` in a pattern. */
export type Captures = Record<string, string>;

/**
 * Matches a text against a pattern such as `How many {what} are there in {place}?`, ignoring case, runs of white space
 * and closing punctuation; null if it does not fit. Linear in the text: each literal is taken at its first occurrence,
 * which suffices because the last one must match the end.
 */
export function matchPattern(pattern: string, text: string): Captures | null {
  const { literals, names } = splitPattern(tidy(pattern));
  const whole = tidy(text);
  const folded = fold(whole);
  const first = literals[0] ?? '';
  if (names.length === 0) return folded === first ? {} : null;
  if (!folded.startsWith(first)) return null;
  const captures: Captures = {};
  let from = first.length;
  for (const [index, name] of names.entries()) {
    const end = literalAt(folded, literals[index + 1] ?? '', { from, last: index === names.length - 1 });
    const part = end < 0 ? '' : whole.slice(from, end).trim();
    if (part === '') return null;
    captures[name] = part;
    from = end + (literals[index + 1] ?? '').length;
  }
  return captures;
}

/** The number of literal letters in a pattern: the more, the more specific. */
export function literalLength(pattern: string): number {
  return splitPattern(tidy(pattern)).literals.join('').length;
}

/** The share (0–1) of a pattern's own words that occur in the text. Patterns of fewer than two words share nothing. */
export function overlap(pattern: string, text: string): number {
  const own = wordsOf(pattern.replace(PLACEHOLDER, ' '));
  const said = wordsOf(text);
  if (own.size < 2) return 0;
  return [...own].filter((word) => said.has(word)).length / own.size;
}

/** A text's significant words, in lower case and without the commonest endings. */
export function wordsOf(text: string): Set<string> {
  const spread = text.replace(/([a-z\d])([A-Z])/g, '$1 $2').toLowerCase();
  const words = spread.match(/[\p{L}\p{N}]+/gu) ?? [];
  return new Set(words.filter((word) => !STOP_WORDS.has(word)).map(stem));
}

const PLACEHOLDER = /\{(\w+)\}/g;

const STOP_WORDS = new Set(
  (
    'a an and any are as at be by can could do does for from get give given has have how i in into is it its me ' +
    'my of on or our please so some tell that the their them then there these they this to use used uses using ' +
    'was we what when where which who will with would you your if not no one all'
  ).split(' '),
);

function stem(word: string): string {
  if (word.length > 5) return word.replace(/(?:ations?|ators?|ates?|ing|ies|ed|es|s|e|y)$/, '');
  return word.length > 3 ? word.replace(/s$/, '') : word;
}

function tidy(text: string): string {
  const spaced = text.replace(/\s+/g, ' ').trim();
  // By hand: a regular expression for the end of a text takes quadratic time over a long row of dots.
  let end = spaced.length;
  while (end > 0 && ' .?!'.includes(spaced.charAt(end - 1))) end -= 1;
  return spaced.slice(0, end);
}

/** Lower case of the same length, so that positions match the original's. */
function fold(text: string): string {
  const lower = text.toLowerCase();
  return lower.length === text.length ? lower : text;
}

function splitPattern(pattern: string): { literals: string[]; names: string[] } {
  const pieces = pattern.split(PLACEHOLDER);
  return {
    literals: pieces.filter((_, index) => index % 2 === 0).map(fold),
    names: pieces.filter((_, index) => index % 2 === 1),
  };
}

/** The literal's index after at least one character, or -1; the last literal must end the text. */
function literalAt(text: string, literal: string, where: { from: number; last: boolean }): number {
  if (where.last) {
    const end = text.length - literal.length;
    return end > where.from && text.endsWith(literal) ? end : -1;
  }
  return literal === '' ? where.from + 1 : text.indexOf(literal, where.from + 1);
}
