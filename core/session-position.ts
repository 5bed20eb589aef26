/** A position in a session's log, which concatenates those of its runs, as one increasing number. */

/** A run's number on its thread, and a sequence number in its log. */
export interface SessionPosition {
  place: number;
  seq: number;
}

/** Far above the sequence numbers of any run (`LIMITS.eventsPerRun`). */
const RUN_SPAN = 2 ** 32;

/** The number that clients see as `seq`. */
export function toSessionSeq({ place, seq }: SessionPosition): number {
  return place * RUN_SPAN + seq;
}

/** Decodes such a number. */
export function fromSessionSeq(number: number): SessionPosition {
  return { place: Math.floor(number / RUN_SPAN), seq: number % RUN_SPAN };
}
