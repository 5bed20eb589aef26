/** Events of memories given to a turn. */
import type { NewEvent } from '../events.ts';
import type { GivenMemory } from '../memory/prompt.ts';
import type { RunState } from '../state.ts';

/** The turn gets its memories. `recorded`: taken from the run being replayed. */
export function recordMemories(
  { turn }: RunState,
  given: { entries: readonly GivenMemory[]; step: number; ordinal: number; recorded: boolean },
): NewEvent {
  const { entries, step, ordinal, recorded } = given;
  return {
    type: 'memory.retrieved',
    actor: 'system',
    turn_id: turn?.id,
    step,
    payload: { entries: [...entries], ordinal, ...(recorded && { recorded }) },
  };
}
