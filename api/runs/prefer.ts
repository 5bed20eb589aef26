/** What a client prefers (RFC 7240). */
import { LIMITS } from '../../core/limits.ts';

/** How long an answer is waited for: `wait=N` in seconds, quoted or not, also beside `respond-async` (4.3), which alone waits for none. */
export function preferredWaitMs(prefer: string): number {
  const wait = /(?:^|[,;\s])wait\s*=\s*"?(\d{1,6})/i.exec(prefer)?.[1];
  const unlessSaid = prefers(prefer, 'respond-async') ? 0 : LIMITS.syncWaitSeconds;
  return 1000 * Math.min(LIMITS.preferredWaitSeconds, wait === undefined ? unlessSaid : Number(wait));
}

/** Whether a preference without a value is among them. */
export function prefers(prefer: string, preference: string): boolean {
  return prefer
    .toLowerCase()
    .split(/[,;]/)
    .some((part) => part.trim() === preference);
}
