/** Diversifies the ten best hits, and brings in both sides of a subject if there are two. Pure. */
import type { Candidate, Ranked } from './candidate.ts';
import { weightOf } from './passage.ts';
import { asksWhether } from './question.ts';
import { readSaid } from './said.ts';
import { RECALL_ORDER } from './weights.ts';
import { numbersOf, saysNotSo } from './words.ts';

const { together, beside, seeds, lookedAt, leastShare } = RECALL_ORDER;

/**
 * Picks the best hits one by one. Neighbours of a picked one in its conversation say much the same, and lose score;
 * `why.beside` is the loss.
 */
export function countLessBeside<C extends Candidate>(ranked: readonly Ranked<C>[]): Ranked<C>[] {
  const taken = new Map<string, number>();
  const worthOf = ({ score, entry }: Ranked<C>) => score * beside ** (taken.get(entry.id) ?? 0);
  const lowered = (hit: Ranked<C>) => withScore(hit, worthOf(hit), 'beside');
  const left = [...ranked];
  const best: Ranked<C>[] = [];
  while (best.length < together && left.length > 0) {
    const [hit] = left.splice(placeOfBest(left, worthOf), 1);
    if (!hit) break;
    best.push(lowered(hit));
    const around = new Set(hit.entry.neighbours.map(({ id }) => id));
    for (const id of around) taken.set(id, (taken.get(id) ?? 0) + 1);
  }
  return [...best, ...left.map(lowered).toSorted((a, b) => b.score - a.score)];
}

/** The index of the first hit with the highest worth. Hits are sorted by score, an upper bound of their worth. */
function placeOfBest<C extends Candidate>(hits: readonly Ranked<C>[], worthOf: (hit: Ranked<C>) => number): number {
  let [place, most] = [0, -1];
  for (const [at, hit] of hits.entries()) {
    if (hit.score <= most) break;
    const worth = worthOf(hit);
    if (worth > most) [place, most] = [at, worth];
  }
  return place;
}

/**
 * Makes the tenth hit one that contradicts the best: with another number, or, for yes/no questions, one that denies what they
 * say or the reverse. Takes the one with the highest sum of score and share of the question's words. It gets the score of the
 * hit it replaces; `why.other_side` is the difference.
 */
export function bringOtherSide<C extends Candidate>(question: string, ranked: readonly Ranked<C>[]): Ranked<C>[] {
  const last = ranked[together - 1];
  if (!last) return [...ranked];
  const isOfDenial = asksWhether(question);
  const sidesOf = ranked.slice(0, seeds).flatMap((hit) => readSide(hit) ?? []);
  const most = Math.max(...ranked.slice(0, together).map(({ entry }) => weightOf(entry.words)));
  const others = ranked.slice(together - 1, together + lookedAt).filter((hit) => {
    if (most === 0 || weightOf(hit.entry.words) < leastShare * most) return false;
    const side = readSide(hit);
    return side !== undefined && sidesOf.some((seed) => speaksAgainst(seed, side, isOfDenial));
  });
  const worthOf = ({ entry, score }: Ranked<C>) => weightOf(entry.words) / most + score;
  const [other] = others.toSorted((a, b) => worthOf(b) - worthOf(a));
  if (!other || other === last) return [...ranked];
  const rest = ranked.slice(together - 1).filter((hit) => hit !== other);
  return [...ranked.slice(0, together - 1), withScore(other, last.score, 'other_side'), ...rest];
}

interface Side {
  denies: boolean;
  numbers: readonly string[];
}

/** Only the beginning of a long text is examined, without code: it tells what the text is about. */
const BEGINNING_CHARS = 1500;

/** Undefined for an assistant's words: answers repeat what users say. */
function readSide({ entry: { content, metadata } }: Ranked): Side | undefined {
  const { role, text } = readSaid(content, metadata);
  if (role === 'assistant') return undefined;
  const prose = text.slice(0, BEGINNING_CHARS).replaceAll(/```[\s\S]*?(?:```|$)/g, ' ');
  return { denies: saysNotSo(prose), numbers: numbersOf(prose) };
}

function speaksAgainst(seed: Side, other: Side, isOfDenial: boolean): boolean {
  if (isOfDenial) return seed.denies !== other.denies;
  return seed.numbers.length > 0 && other.numbers.some((number) => !seed.numbers.includes(number));
}

function withScore<C extends Candidate>(hit: Ranked<C>, to: number, reason: 'beside' | 'other_side'): Ranked<C> {
  const score = round(to);
  const difference = round(score - hit.score);
  return difference === 0 ? hit : { ...hit, score, why: { ...hit.why, [reason]: difference } };
}

function round(value: number): number {
  return Math.round(value * 10_000) / 10_000;
}
