/** Logs a planner's model calls in its workflow's run: each before it is made, and its outcome when it is over. */
import type { NewEvent } from '../../../core/events.ts';
import type { OwnCallRecord } from '../../model-calls/tool-ask.ts';
import { appendHeld } from './append.ts';
import type { Hold } from './hold-workflow.ts';

/** Stops recording if another process has taken the run. */
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
