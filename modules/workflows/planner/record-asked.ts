/** Logs a planner's model calls in its workflow's run: each before it is made, and its outcome when it is over. */
import type { NewEvent } from '../../../core/events.ts';
import type { OwnCallRecord } from '../../model-calls/tool-ask.ts';
import { appendToRun } from '../../run-log/append-to-run.ts';
import type { Hold } from './hold-workflow.ts';

/** Goes on if another process has taken the run meanwhile, or it has ended: what was asked is to be paid for. */
export function recordAsked({ context, run }: Hold): OwnCallRecord {
  const ref = { tenantId: run.tenant_id, runId: run.id };
  const told: NewEvent[] = [];
  const turn = run.open_turn_id === null ? null : { id: run.open_turn_id };
  return {
    step: run.steps,
    state: () => ({ turn, length: run.length }),
    append: (event) => void told.push(event),
    async commit() {
      const events = told.splice(0);
      if (events.length > 0) await appendToRun(context, ref, () => ({ events }));
    },
  };
}
