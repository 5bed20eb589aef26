/** Whether a turn has read untrusted content. */
import type { MemoryOrigin } from '../../../core/memory/entry.ts';
import type { LearntTurn } from '../../../db/memory-extractions.ts';

/** The origin of untrusted content that the turn has read; undefined if none. */
export function taintOf(
  turn: Pick<LearntTurn, 'given' | 'read_untrusted' | 'recalled_untrusted'>,
): MemoryOrigin | undefined {
  if (turn.read_untrusted) return 'tool';
  const isMistrusted = turn.recalled_untrusted || turn.given.some(({ trusted }) => !trusted);
  return isMistrusted ? 'memory' : undefined;
}
