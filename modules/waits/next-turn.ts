/** Starts the next turn of a run that waits for one. */
import { conflict } from '../../core/errors.ts';
import { isTerminal, type NewEvent, type TurnInput } from '../../core/events.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { OutboxRow } from '../../db/commit-run.ts';
import type { Tx } from '../../db/database.ts';
import { findConversationHandoff } from '../../db/handoffs.ts';
import { TURNS } from '../../jobs/turns.ts';
import { newId } from '../../lib/new-id.ts';
import type { AppendedChange } from '../run-log/append-to-run.ts';

export interface NextTurn {
  tenantId: string;
  runId: string;
  input: TurnInput;
  /** The key of the request. */
  requestedBy?: string | undefined;
  traceparent?: string | undefined;
}

/** The turn and its job. `begin` throws 409 if the locked run has ended or is at work. */
export function nextTurn({ tenantId, runId, input, requestedBy, traceparent }: NextTurn) {
  const turnId = newId();
  const payload = { tenantId, runId, turnId, ...(traceparent && { traceparent }) };
  const outbox: OutboxRow[] = [{ id: newId(), queue: TURNS.name, at_position: true, payload }];
  const begin = (run: RunRow): AppendedChange => {
    mustWait(run);
    const started: NewEvent = {
      type: 'turn.started',
      actor: 'user',
      turn_id: turnId,
      payload: { number: run.turn_count + 1, input, requested_by: requestedBy, ...(traceparent && { traceparent }) },
    };
    return { events: [started], outbox };
  };
  return { turnId, begin };
}

/** Throws 409 if the conversation was handed over: its new agent continues in the thread's next run. */
export async function mustHaveConversation(tx: Tx, { id, status, open_turn_id, thread_id }: RunRow): Promise<void> {
  if (isTerminal(status) || open_turn_id || !(await findConversationHandoff(tx, id))) return;
  throw conflict(`The run hands its conversation over: the next run of thread ${thread_id} goes on.`, { thread_id });
}

function mustWait(run: RunRow): void {
  if (isTerminal(run.status)) {
    throw conflict(`The run is ${run.status}. Start another run with thread_id ${run.thread_id} to go on.`, {
      status_of_run: run.status,
      thread_id: run.thread_id,
    });
  }
  if (run.open_turn_id && run.status === 'awaiting_human') {
    const message = `Turn ${run.open_turn_id} of the run waits for somebody: \`waits\` of the run says for what; answer that, or cancel.`;
    throw conflict(message, { turn_id: run.open_turn_id });
  }
  if (run.open_turn_id) {
    throw conflict(`The run is still working on turn ${run.open_turn_id}.`, { turn_id: run.open_turn_id });
  }
}
