/** A place in the log of a session, which is that of its runs one after the other, as one number that only rises. */

/** A run's number on its thread, and a sequence number in its log. */
export interface SessionPosition {
  place: number;
  seq: number;
}

/** Sequence numbers of one run stay below it by far (`LIMITS.eventsPerRun`). */
const RUN_SPAN = 2 ** 32;

/** The number that clients see as `seq`. */
export function toSessionSeq({ place, seq }: SessionPosition): number {
  return place * RUN_SPAN + seq;
}

/** What such a number stands for. */
export function fromSessionSeq(number: number): SessionPosition {
  return { place: Math.floor(number / RUN_SPAN), seq: number % RUN_SPAN };
}
