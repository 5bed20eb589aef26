/** The queue of one message that a run keeps during a turn. */
import { takeQueued } from '../../core/decision-events/turns.ts';
import type { NewEvent } from '../../core/events.ts';
import { toQueued } from '../../core/message-queue.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { OutboxRow } from '../../db/commit-run.ts';
import type { Tx } from '../../db/database.ts';
import { TURNS } from '../../jobs/turns.ts';
import { newId } from '../../lib/new-id.ts';
import { appendIn, type Announcement } from '../run-log/append-to-run.ts';

/** A message as it was queued. */
export type WaitingMessage = Extract<NewEvent, { type: 'message.queued' }>['payload'];

/** The waiting message; undefined if there is none, or it was erased. */
export function waitingMessage(run: Pick<RunRow, 'queued' | 'dequeued_id' | 'erased_at'>): WaitingMessage | undefined {
  if (!run.queued || run.erased_at) return undefined;
  return run.queued.message_id === run.dequeued_id ? undefined : run.queued;
}

/**
 * The event that carries the message left waiting in the previous run over to the thread's next run, under its id, in the
 * first commit. In a run that ends with its turn, that turn reads it.
 */
export function takeAlong(
  waiting: WaitingMessage | undefined,
  { turnId, keepOpen }: { turnId: string | undefined; keepOpen: boolean },
): NewEvent[] {
  if (!waiting) return [];
  const payload = keepOpen ? waiting : { ...waiting, mode: 'steer' as const };
  return [{ type: 'message.queued', actor: 'user', turn_id: turnId, payload }];
}

/** Queues a message at a run with an open turn. The caller holds the run's lock: no turn ends meanwhile. */
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

/** The turn begun by a waiting message, with its job; empty if none waits. */
export function turnOfQueued(run: RunRow): { events: NewEvent[]; outbox: OutboxRow[] } {
  const waiting = waitingMessage(run);
  if (!waiting) return { events: [], outbox: [] };
  const turnId = newId();
  const payload = { tenantId: run.tenant_id, runId: run.id, turnId };
  return {
    events: takeQueued({ queued: toQueued(waiting), turnCount: run.turn_count }, turnId),
    outbox: [{ id: newId(), queue: TURNS.name, at_position: true, payload }],
  };
}
