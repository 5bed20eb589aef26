/** Whether a turn has read what nobody vouches for. */
import type { MemoryOrigin } from '../../../core/memory/entry.ts';
import type { LearntTurn } from '../../../db/memory-extractions.ts';

/** Built-in tools whose answers follow from what they are asked, from the clock or from a person. */
const HARMLESS = new Set(['calculator', 'current_time', 'json_query', 'remember', 'ask_user', 'sleep']);

/** Whose word it was that the turn has read beside its user's: undefined where there was none to mistrust. */
export function taintOf(turn: Pick<LearntTurn, 'given' | 'tools' | 'recalled_untrusted'>): MemoryOrigin | undefined {
  const others = turn.tools.filter((name) => !HARMLESS.has(name) && name !== 'recall');
  if (others.length > 0) return 'tool';
  const isMistrusted = turn.recalled_untrusted || turn.given.some(({ trusted }) => !trusted);
  return isMistrusted ? 'memory' : undefined;
}
