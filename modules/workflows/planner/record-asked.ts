/** What a planner is asked, in the log of its workflow's run: each call before it is made, what came of it when it is over. */
import type { NewEvent } from '../../../core/events.ts';
import type { OwnCallRecord } from '../../model-calls/tool-ask.ts';
import { appendHeld } from './append.ts';
import type { Hold } from './hold-workflow.ts';

/** A run that somebody else has taken meanwhile is told nothing more. */
export function recordAsked(held: Hold): OwnCallRecord {
  const { run } = held;
  const told: NewEvent[] = [];
  const turn = run.open_turn_id === null ? null : { id: run.open_turn_id };
  return {
    step: run.steps,
    state: () => ({ turn, length: run.length }),
    append: (event) => void told.push(event),
    async commit() {
      if (told.length > 0) await appendHeld(held, told.splice(0));
    },
  };
}
