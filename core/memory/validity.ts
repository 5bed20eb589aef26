/** Whether a fact holds at a given time. Facts that do not are recalled after those that do, and marked. Pure. */
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

/** Share of its score that an entry loses if it does not hold at the time of the question. */
const LOST_SHARE = 0.1;

/** Whether a fact holds at a time. `valid_to` is exclusive. */
export function validityOf(times: ValidTimes, at: Date): Validity {
  return validityWithin(times, { from: at, to: new Date(at.getTime() + 1) });
}

/** Why an entry was found; `validity` is negative. */
export type Reasons = Partial<Record<Reason | 'validity', number>>;

/**
 * Takes a tenth of the score from entries that do not hold, and moves them behind those that hold with at least as much.
 * Entries that held in the period named in the question are not affected.
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
    // Ranking is more than the order of scores, so an entry only moves behind its neighbours.
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
