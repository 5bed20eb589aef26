/** How long what memory asks of a model waits while that is away: some three hours in all, and then it goes by rules. */
import { LIMITS } from '../limits.ts';

const FIRST_WAIT_SECONDS = 60;
/** As runs do that wait for one. */
const LONGEST_WAIT_SECONDS = LIMITS.outagePauseMs / 1000;
const MOST_ATTEMPTS = 36;

/** Whether it is asked again that was asked so often. */
export const mayAskAgain = (attempts: number): boolean => attempts < MOST_ATTEMPTS;

/** Seconds until then: twice as long each time, up to the longest pause. */
export const secondsUntilAsked = (attempts: number): number =>
  Math.min(FIRST_WAIT_SECONDS * 2 ** attempts, LONGEST_WAIT_SECONDS);
