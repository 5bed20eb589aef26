/** Whether two texts state the same fact. Pure. */
import { entitiesOf, numbersOf } from './words.ts';

/** Words and signs that change what a text says: a currency, `+`, `%`, a minus, an emoji. Vowel signs are parts of words. */
const SAID = /(?:[\p{L}\p{M}\p{N}\p{Sc}\p{Sm}\p{So}%#&]|(?<![\p{L}\p{N}])-(?=\d))+/gu;
/** What a text can do without: articles and emphasis. */
const EMPTY = /(?<![\p{L}\p{N}'’-])(?:a lot|an?|the|very|really|please|also)(?![\p{L}\p{N}'’-])/gu;

/** Words of a list at the end of a sentence, after a preposition: nothing else makes sure that their order is of no account. */
const WORD = String.raw`[\p{L}\p{N}'’-]+`;
const LIST = new RegExp(
  String.raw`(?<![\p{L}\p{N}'’-])(to|of|in|on|at|for|with|from|by|about|between)\s+((?:${WORD},\s+)*${WORD},?\s+(?:and|or)\s+(?:\1\s+)?${WORD})(?=\s*(?:[.!?;\n]|$))`,
  'gu',
);

/** Whether they say the same words and signs in the same order. Any other word, number, name or denial may make another fact. */
export function isSameFact(left: string, right: string): boolean {
  if (left === right) return true;
  const [said, other] = [essenceOf(left), essenceOf(right)];
  return said !== '' && said === other && namesIn(left) === namesIn(right);
}

/** A text without case, spacing and punctuation. */
export function plainOf(text: string): string {
  return (text.normalize('NFKC').toLowerCase().match(SAID) ?? []).join(' ');
}

function essenceOf(text: string): string {
  const words = text.normalize('NFKC').toLowerCase().replaceAll(EMPTY, ' ');
  return plainOf(words.replaceAll(LIST, inOneOrder));
}

function inOneOrder(_list: string, preposition: string, items: string): string {
  const joined = / or /.test(items.replaceAll(/\s+/g, ' ')) ? 'or' : 'and';
  const words = items.split(/[\s,]+/).filter((word) => word !== joined && word !== preposition);
  return `${preposition} ${words.toSorted().join(` ${joined} `)}`;
}

/** Names tell themselves by their capitals; `1.5` and `1,5` by the point. */
function namesIn(text: string): string {
  return [...entitiesOf(text).toSorted(), ...numbersOf(text)].join(' ');
}
