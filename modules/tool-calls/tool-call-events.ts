/** Changes that a worker of `tool-calls` appends to a run. */
import { checkEvent, toLogged, type NewEvent } from '../../core/events.ts';
import { attemptError } from '../../core/ledger.ts';
import type { RemoteWork } from '../../core/tool.ts';
import { NO_ROWS, type CallChange, type LedgerCall, type RunChange } from '../../db/commit-run.ts';
import type { ToolCallJob } from '../../jobs/tool-calls.ts';

type ToolFact = {
  [T in NewEvent['type']]: { type: T; payload: Extract<NewEvent, { type: T }>['payload'] };
}[NewEvent['type']];

/** An event about a call, with its turn and step. */
export function callEvent(call: { turn_id: string; step: number }, fact: ToolFact): NewEvent {
  return { ...fact, actor: 'worker', turn_id: call.turn_id, step: call.step };
}

/** A change of an open run that only changes the position in the run's own row; tool events have no other projections. */
export function appended(job: ToolCallJob, events: readonly NewEvent[]): RunChange {
  return {
    tenant_id: job.tenantId,
    run_id: job.runId,
    open: true,
    events: events.map(checkEvent).map(toLogged),
    ...NO_ROWS,
  };
}

/** Ends an attempt that surely had no effect, or whose work goes on elsewhere: the call can be claimed again after a pause. */
export function giveUpAttempt(
  call: Pick<LedgerCall, 'id' | 'error'>,
  attempt: number,
  why: {
    code: string;
    message: string;
    waitMs: number;
    remote?: RemoteWork | undefined;
    perhapsIn?: number | undefined;
  } = {
    code: 'not_sent',
    message: 'The call was not sent.',
    waitMs: 0,
  },
): CallChange {
  const { code, message, waitMs, remote, perhapsIn = call.error?.perhaps_in } = why;
  return {
    id: call.id,
    from: ['running'],
    attempt,
    set: {
      status: 'pending',
      error: attemptError({ code, message, perhapsIn }),
      lease_expires_at: null,
      ...(remote && { remote }),
    },
    retry_ms: waitMs,
  };
}
