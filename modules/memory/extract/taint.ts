/** Whether a turn has read what nobody vouches for. */
import type { MemoryOrigin } from '../../../core/memory/entry.ts';
import type { LearntTurn } from '../../../db/memory-extractions.ts';

/** Whose word it was that the turn has read beside its user's: undefined where there was none to mistrust. */
export function taintOf(
  turn: Pick<LearntTurn, 'given' | 'read_untrusted' | 'recalled_untrusted'>,
): MemoryOrigin | undefined {
  if (turn.read_untrusted) return 'tool';
  const isMistrusted = turn.recalled_untrusted || turn.given.some(({ trusted }) => !trusted);
  return isMistrusted ? 'memory' : undefined;
}
