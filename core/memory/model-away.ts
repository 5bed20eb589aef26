/** Retries of memory work whose model is unavailable: about three hours in all; after that, rules do the work. */
import { backoffMs } from '../backoff.ts';
import { LIMITS } from '../limits.ts';

const FIRST_WAIT_MS = 60_000;
/** The longest pause of runs that wait for a model. */
const LONGEST_WAIT_MS = LIMITS.outagePauseMs;
const MOST_ATTEMPTS = 36;

/** Whether another attempt is made after so many. */
export const mayAskAgain = (attempts: number): boolean => attempts < MOST_ATTEMPTS;

/** Seconds until the next attempt: doubled each time, up to the longest pause. */
export const secondsUntilAsked = (attempts: number): number =>
  backoffMs({ firstMs: FIRST_WAIT_MS, mostMs: LONGEST_WAIT_MS, attempt: attempts + 1 }) / 1000;
