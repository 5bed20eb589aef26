/** Whether a fact holds at a time: one that does not is recalled with that mark, and after those that do. Pure. */
import type { Candidate, Ranked, Reason } from './candidate.ts';
import type { Question } from './ranking.ts';
import { resolveTime, type TimeSpan } from './time-expressions.ts';

/** `ended`: it was true once; `not_yet`: it is to be true later. */
export const VALIDITIES = ['current', 'ended', 'not_yet'] as const;
export type Validity = (typeof VALIDITIES)[number];

export interface ValidTimes {
  valid_from: Date | null;
  valid_to: Date | null;
}

/** What an entry that does not hold at the time of the question loses of its score. */
const LOST_SHARE = 0.1;

/** Whether it holds then. The end itself is past. */
export function validityOf(times: ValidTimes, at: Date): Validity {
  return validityWithin(times, { from: at, to: new Date(at.getTime() + 1) });
}

/** Why an entry was found; `validity` takes from the score what the signals have added. */
export type Reasons = Partial<Record<Reason | 'validity', number>>;

/**
 * Puts what holds before what does not and is worth no more: that has a tenth of its score less. What has held at a time that the
 * question names is as good.
 */
export function putCurrentFirst<C extends Candidate & ValidTimes>(
  { text, at }: Question,
  ranked: readonly Ranked<C>[],
): (Omit<Ranked<C>, 'why'> & { why: Reasons })[] {
  const span = resolveTime(text, at);
  const holds = ({ entry }: Ranked<C>) =>
    validityOf(entry, at) === 'current' || (span !== undefined && validityWithin(entry, span) === 'current');
  const placed: (Omit<Ranked<C>, 'why'> & { why: Reasons })[] = [];
  for (const hit of ranked.toReversed()) {
    const isCurrent = holds(hit);
    const score = isCurrent ? hit.score : round(hit.score * (1 - LOST_SHARE));
    const why = isCurrent ? hit.why : { ...hit.why, validity: round(score - hit.score) };
    // The order of the ranking is more than that of its scores: it only moves behind those next to it.
    const worse = isCurrent
      ? 0
      : placed.findIndex((other) => other.score < score || (other.score === score && other.why.validity !== undefined));
    placed.splice(worse === -1 ? placed.length : worse, 0, { ...hit, score, why });
  }
  return placed;
}

function validityWithin({ valid_from: from, valid_to: to }: ValidTimes, span: TimeSpan): Validity {
  if (to !== null && to <= span.from) return 'ended';
  return from !== null && from >= span.to ? 'not_yet' : 'current';
}

function round(value: number): number {
  return Math.round(value * 10_000) / 10_000;
}
