/** The queue of one message that a run keeps while a turn is open. */
import type { NewEvent } from '../../core/events.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { appendIn, type Announcement } from '../run-log/append-to-run.ts';

/** A message as it was queued. */
export type WaitingMessage = Extract<NewEvent, { type: 'message.queued' }>['payload'];

/** The message that waits; undefined if none does. */
export function waitingMessage(run: Pick<RunRow, 'queued' | 'dequeued_id'>): WaitingMessage | undefined {
  return run.queued && run.queued.message_id !== run.dequeued_id ? run.queued : undefined;
}

/** Queues a message at a run whose turn is open. The caller holds the run: no turn ends meanwhile. */
export async function queueMessageIn(
  tx: Tx,
  { tenantId, runId, message }: { tenantId: string; runId: string; message: WaitingMessage },
): Promise<Announcement> {
  const appended = await appendIn(tx, { tenantId, runId }, (now) => {
    const turn_id = now.open_turn_id ?? undefined;
    return { events: [{ type: 'message.queued', actor: 'user', turn_id, payload: message }] };
  });
  if (!appended) throw new Error(`a message to run ${runId} was not queued`);
  return { ...appended, runId };
}
