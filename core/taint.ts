/** What events mean for the taint of a turn (docs/security.md). */
import type { RunEvent } from './events.ts';
import { LIMITS } from './limits.ts';

/** What an event brings that nobody vouches for taints the calls that the model asks for from then on. */
export function taintedBy(turn: { untrusted?: number[] } | null, event: RunEvent): { untrusted?: number[] } {
  if (event.type === 'memory.retrieved' && event.payload.entries.every(({ trusted }) => trusted)) return {};
  const known = turn?.untrusted ?? [];
  return known.length < LIMITS.taintedBy ? { untrusted: [...known, event.seq] } : {};
}
