/** Splits texts into words for rules. The text search has its own words, with stems (`db/memory-search.ts`). */

/** A run of a script without spaces between words. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}ー\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]+/gu;
const SEGMENTER = new Intl.Segmenter('und', { granularity: 'word' });

/** Lower-case words and numbers, in order. */
export function wordsOf(text: string): string[] {
  const spaced = text.replaceAll(
    UNSPACED,
    (run) => ` ${[...SEGMENTER.segment(run)].map(({ segment }) => segment).join(' ')} `,
  );
  return spaced.toLowerCase().match(/[\p{L}\p{N}]+(?:['’.,:-][\p{L}\p{N}]+)*/gu) ?? [];
}

/** Whether any of it is in a script without spaces between words. */
export function hasUnspaced(text: string): boolean {
  return text.search(UNSPACED) >= 0;
}

/** Numbers as written, sorted. */
export function numbersOf(text: string): string[] {
  return (text.match(/\d+(?:[.,:]\d+)*/g) ?? []).toSorted();
}

/** Names, recognised by capitals within a sentence, digits or quotes: lower case, each once. */
export function entitiesOf(text: string): string[] {
  const capitals = [...text.matchAll(/(?<![.!?:\n]\s*|^\s*)\b\p{Lu}[\p{L}\p{N}'’-]+/gu)].map(([word]) => word);
  const quoted = [...text.matchAll(/["“]([^"”\n]{2,60})["”]/g)].map(([, inner = '']) => inner);
  const coded = text.match(/\b(?=[\w.-]*\d)(?=[\w.-]*\p{L})[\w.-]{2,}\b/gu) ?? [];
  const found = [...capitals, ...quoted, ...coded, ...numbersOf(text)].map((each) => each.toLowerCase());
  return [...new Set(found)].filter((each) => !COMMON.has(each));
}

/** Capitalised words that are no names. */
const COMMON = new Set([
  'i',
  "i'm",
  "i've",
  "i'd",
  "i'll",
  'ok',
  'the',
  'what',
  'when',
  'where',
  'who',
  'how',
  'which',
]);

const NEGATIONS = new Set([
  'not', 'no', 'never', 'none', 'without', 'neither', 'nor', 'cannot', "can't", "don't", "doesn't", "didn't", "won't",
  "isn't", "aren't", "wasn't", "weren't", "haven't", "hasn't", "hadn't", "couldn't", "shouldn't", "wouldn't",
]); // prettier-ignore

/** Whether a text is negative overall: it contains an odd number of negations. */
export function denies(text: string): boolean {
  const said = wordsOf(text).filter((word) => NEGATIONS.has(word.replaceAll('’', "'")));
  return said.length % 2 === 1;
}

const NOT_SO = /\b(?:never|no longer|(?:have|has|had|did|do|does|was|were|am|is|are)(?:n['’]t| not))\b/i;

/** Whether a text contains any negation. */
export function saysNotSo(text: string): boolean {
  return NOT_SO.test(text);
}

/** All sequences of `length` consecutive words. */
export function shinglesOf(text: string, length: number): Set<string> {
  const words = wordsOf(text);
  const count = Math.max(0, words.length - length + 1);
  return new Set(Array.from({ length: count }, (_, at) => words.slice(at, at + length).join(' ')));
}

/**
 * The parts of a query, as spaces separate them: `words` for a word search, and `literals`, which that cannot split: they are
 * in a script without spaces, or are only symbols, such as an emoji.
 */
export function partsOf(query: string): { words: string; literals: string[] } {
  const parts = query.split(/\s+/).map((part) => (hasUnspaced(part) ? part.replaceAll(/^\p{P}+|\p{P}+$/gu, '') : part));
  const isLiteral = (part: string) =>
    hasUnspaced(part) || (!/[\p{L}\p{N}]/u.test(part) && /\p{Extended_Pictographic}/u.test(part));
  return { words: parts.filter((part) => !isLiteral(part)).join(' '), literals: parts.filter(isLiteral) };
}
