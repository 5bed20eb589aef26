/** The queue of one message that a run keeps while a turn is open. */
import type { NewEvent } from '../../core/events.ts';
import type { RunRow } from '../../db/claim-run.ts';

/** A message as it was queued. */
export type WaitingMessage = Extract<NewEvent, { type: 'message.queued' }>['payload'];

/** The message that waits; undefined if none does. */
export function waitingMessage(run: Pick<RunRow, 'queued' | 'dequeued_id'>): WaitingMessage | undefined {
  return run.queued && run.queued.message_id !== run.dequeued_id ? run.queued : undefined;
}
