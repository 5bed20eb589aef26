/** Rules that find contradictions: of two texts about one thing, one denies the other or gives another value. Pure. */
import { areSameAmounts, withAmounts } from './amounts.ts';
import { denies, hasUnspaced, numbersOf, wordsOf } from './words.ts';

/** Longer texts make more than one statement. */
const MOST_WORDS = 60;
/** Maximum of words that make up one value. */
const VALUE_WORDS = 3;
/** Minimum of words in common for two texts about one thing. */
const LEAST_COMMON = 2;

/** Verbs whose object has one value. With `like` or `have` there may be many. */
const SINGULAR =
  /\b(?:is|are|was|were|am|equals?|costs?|lives?|works?|named|called|born|weighs?|starts?|begins?|ends?|opens?|closes?|leaves?|arrives?|moved|located|scheduled|due|set)\b/i;
const PLURAL =
  /\b(?:likes?|loves?|enjoys?|prefers?|ha(?:s|ve)|includes?|such as|also|another|one of|some|sometimes)\b/i;
/** What stands between subject and value in Chinese and Japanese. */
const TOPIC = /[是為为は]/;
const NEGATION = new Set(['not', 'no', 'never', 'do', 'does', 'did', 'is', 'are', 'was', 'were', 'cannot', 'can']);
const GLUE = new Set([
  'the',
  'a',
  'an',
  'of',
  'to',
  'in',
  'on',
  'at',
  'for',
  'by',
  'and',
  'now',
  'i',
  'my',
  'our',
  'we',
  'it',
  'actually',
]);
/** They do not change what is asked for. */
const ALWAYS = new Set(['please', 'always']);
/** Phrasing of requests and bounds: neither a subject nor common ground of two texts. */
const ASKING = new Set(
  'just only ever most least more less than up exactly about around maximum minimum max min'.split(' '),
);

/** True only if the words themselves show it; what takes world knowledge is for a model to judge. */
export function contradicts(left: string, right: string): boolean {
  const [a, b] = [tokensOf(left), tokensOf(right)];
  if (a.length > MOST_WORDS || b.length > MOST_WORDS) return false;
  const only = (own: readonly string[], other: readonly string[]) =>
    own.filter((word) => !other.some((each) => each === word || areSameAmounts(each, word)));
  const [onlyA, onlyB] = [only(a, b), only(b, a)];
  const common = a.filter((word) => b.includes(word) && isOfSubject(word));
  if (common.length < LEAST_COMMON) return false;
  if (denies(left) !== denies(right))
    return [...onlyA, ...onlyB].every((word) => isNegation(word) || GLUE.has(word) || ALWAYS.has(word));
  return isOtherValue({ left, right, a, b, onlyA, onlyB });
}

interface Compared {
  left: string;
  right: string;
  a: readonly string[];
  b: readonly string[];
  onlyA: readonly string[];
  onlyB: readonly string[];
}

/** The same statement with another value: after a verb with a single value, or with other numbers. */
function isOtherValue({ left, right, a, b, onlyA, onlyB }: Compared): boolean {
  const [valueA, valueB] = [onlyA, onlyB].map((words) => words.filter((word) => !GLUE.has(word) && !ALWAYS.has(word)));
  if (!valueA?.length || !valueB?.length) return false;
  if (valueA.length > VALUE_WORDS || valueB.length > VALUE_WORDS) return false;
  // A different subject is a different thing.
  if (valueA.includes(firstOf(a)) || valueB.includes(firstOf(b))) return false;
  if (namesBefore(left, valueA) && namesBefore(right, valueB)) return false;
  const isOfNumbers = [valueA, valueB].every((words) => words.some(isNumber));
  if (isOfNumbers && !SINGULAR.test(left) && !SINGULAR.test(right)) {
    if (namesWhich(left, valueA) && namesWhich(right, valueB)) return false;
    // Both limits can be met: one of words, one of sentences.
    if (countedIn(a, valueA).length > 0 && countedIn(b, valueB).length > 0) return false;
  }
  if (isOfNumbers) return isOneValue(a, valueA) && isOneValue(b, valueB) && !areBounds(valueA, valueB);
  if (PLURAL.test(left) || PLURAL.test(right)) return false;
  return SINGULAR.test(left) && SINGULAR.test(right);
}

/** Whether one of the differing words is part of the subject: it precedes the verb. */
function namesBefore(text: string, value: readonly string[]): boolean {
  const verb = SINGULAR.exec(text) ?? TOPIC.exec(text);
  return verb !== null && tokensOf(text.slice(0, verb.index)).some((word) => value.includes(word));
}

/** Numbers that identify one of several things: `number 3`, `task 3`, `lesson-3`, `the 3rd draft`, `第3章`; not dates. */
const WHICH =
  /(?:\b(?:number|nr|step|task|item|chapter|page|section|phase|part|lesson|ticket|issue|question|line|row|column|slide|figure|table|exercise)|\bno\.|[#№])\s*(\d+)\b|第\s*(\d+)|\b(\p{L}{2,}-\d+)\b|(?<!\b(?:on|by|until|till|before|after|since|from)\s+)\b(?:the|my|our|your|his|her|their|its)\s+(\d+(?:st|nd|rd|th))\b(?!\s+(?:of\s+)?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))/giu;

/** Whether a number of the value only identifies which thing is meant. */
function namesWhich(text: string, value: readonly string[]): boolean {
  return [...text.matchAll(WHICH)].some(([, ...names]) =>
    names.some((name) => name !== undefined && value.includes(name.toLowerCase())),
  );
}

/** Units counted by the value's numbers: the plurals that follow them, or any word of a script without spaces. */
function countedIn(words: readonly string[], value: readonly string[]): string[] {
  const isUnit = (word: string) => /\p{L}s$/u.test(word) || hasUnspaced(word);
  return words.filter((word, at) => isUnit(word) && value.includes(word) && isNumber(words[at - 1] ?? ''));
}

/** Whether all other words of the value are adjacent to its number: a word elsewhere means the number is of something else. */
function isOneValue(words: readonly string[], value: readonly string[]): boolean {
  const said = words.filter((word) => !GLUE.has(word) && !ALWAYS.has(word));
  const places = value.map((word) => said.indexOf(word));
  const isBesideOther = (place: number, by: number): boolean => {
    const word = said[place + by];
    return word !== undefined && value.includes(word) && (isNumber(word) || isBesideOther(place + by, by));
  };
  return places.every((place) => isNumber(said[place] ?? '') || isBesideOther(place, 1) || isBesideOther(place, -1));
}

/** One is a minimum and the other a maximum: both can be true. */
function areBounds(valueA: readonly string[], valueB: readonly string[]): boolean {
  const [boundA, boundB] = [valueA, valueB].map((words) => words.find((word) => ASKING.has(word)));
  return boundA !== undefined && boundB !== undefined && boundA !== boundB;
}

function isNumber(word: string): boolean {
  return numbersOf(word).length > 0;
}

function isOfSubject(word: string): boolean {
  return !GLUE.has(word) && !ALWAYS.has(word) && !ASKING.has(word);
}

function firstOf(words: readonly string[]): string {
  return words.find(isOfSubject) ?? '';
}

function tokensOf(text: string): string[] {
  return [...new Set(withAmounts(wordsOf(text)).map((word) => word.replace(/['’]s$/, '')))];
}

function isNegation(word: string): boolean {
  return NEGATION.has(word) || /n['’]t$/.test(word);
}
