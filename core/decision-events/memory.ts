/** Events of what a turn is given of its agent's memory. */
import type { NewEvent } from '../events.ts';
import type { GivenMemory } from '../memory/prompt.ts';
import type { RunState } from '../state.ts';

/** A turn has its memories. `recorded`: they are those of the run that is replayed. */
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
