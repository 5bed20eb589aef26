/** Clients' preferences (RFC 7240). */
import { LIMITS } from '../../core/limits.ts';

/**
 * How long to wait for an answer: `wait=N` in seconds, quoted or not, also beside `respond-async` (4.3); that alone
 * means not to wait.
 */
export function preferredWaitMs(prefer: string): number {
  const wait = /(?:^|[,;\s])wait\s*=\s*"?(\d{1,6})/i.exec(prefer)?.[1];
  const unlessSaid = prefersAsync(prefer) ? 0 : LIMITS.syncWaitSeconds;
  return 1000 * Math.min(LIMITS.preferredWaitSeconds, wait === undefined ? unlessSaid : Number(wait));
}

/** Whether the header has the preference `respond-async`. */
export function prefersAsync(prefer: string): boolean {
  return prefer
    .toLowerCase()
    .split(/[,;]/)
    .some((part) => part.trim() === 'respond-async');
}
