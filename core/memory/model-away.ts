/** How long what memory asks of a model waits while that is away: some three hours in all, and then it goes by rules. */
import { backoffMs } from '../backoff.ts';
import { LIMITS } from '../limits.ts';

const FIRST_WAIT_MS = 60_000;
/** As runs do that wait for one. */
const LONGEST_WAIT_MS = LIMITS.outagePauseMs;
const MOST_ATTEMPTS = 36;

/** Whether it is asked again that was asked so often. */
export const mayAskAgain = (attempts: number): boolean => attempts < MOST_ATTEMPTS;

/** Seconds until then: twice as long each time, up to the longest pause. */
export const secondsUntilAsked = (attempts: number): number =>
  backoffMs({ firstMs: FIRST_WAIT_MS, mostMs: LONGEST_WAIT_MS, attempt: attempts + 1 }) / 1000;
