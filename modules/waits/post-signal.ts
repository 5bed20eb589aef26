/** Something from outside that a run may wait for: a row first, then an event. Early it is kept, twice it counts once. */
import { conflict } from '../../core/errors.ts';
import type { NewEvent } from '../../core/events.ts';
import { newId } from '../../lib/new-id.ts';
import { findAnsweredWait, findOpenWait } from '../../db/waits.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import type { Context } from '../governance/context.ts';
import { announceAppended, appendIn, appendToRun, type Announcement } from '../run-log/append-to-run.ts';
import { answeredCall } from './answered-call.ts';
import { takeResults, type ToolResult } from './client-calls.ts';
import { keepSignal } from './keep-signal.ts';

interface PostedSignal {
  tenantId: string;
  runId: string;
  /** Makes it count once; one is made where it is absent. */
  id?: string | undefined;
  /** Of what it says: another one with this id is 422. */
  digest?: string | undefined;
  type: 'timer' | 'webhook' | 'user';
  name?: string | undefined;
  payload: unknown;
  /** The key that sends it; a webhook's sender has none. */
  requestedBy?: string | undefined;
  /** Number of characters of it that had to be replaced. */
  replaced?: number | undefined;
  /** The one wait that it is for; no other is answered, and where it is over nothing is kept. */
  waitId?: string | undefined;
}

/**
 * Keeps the signal in the run's log and lets the run continue; `isNew` is false for a repeated one, also where the run has
 * ended since. 409 for a new one where it has, or has no room, 422 for another one with the same id.
 */
export async function postSignal(context: Context, signal: PostedSignal): Promise<{ id: string; isNew: boolean }> {
  let id = '';
  const written = await context.db.withTenant(signal.tenantId, async (tx) => {
    const posted = await postSignalIn(tx, signal);
    id = posted.id;
    return posted.written;
  });
  if (written) announceAppended(context, written);
  return { id, isNew: written !== undefined };
}

/** The same in a transaction of the caller's, who announces afterwards what was written. */
export async function postSignalIn(
  tx: Tx,
  signal: PostedSignal,
): Promise<{ id: string; written: Announcement | undefined }> {
  const id = signal.id ?? newId();
  const appended = await appendIn(tx, signal, async (run) => {
    const { runId, type, name, payload, requestedBy, replaced } = signal;
    if (!(await keepSignal(tx, run, { id, type, payload, digest: signal.digest }))) return null;
    const wait = signal.waitId
      ? await findOpenWait(tx, runId, signal.waitId)
      : await findAnsweredWait(tx, { runId, type, name: name ?? null });
    if (signal.waitId && !wait) throw conflict('Nothing waits for it any more.');
    return {
      events: [signalEvent(run, { id, type, name, payload, callId: wait?.id, requestedBy, replaced })],
      // Nothing waits for it yet: the log keeps it until something does.
      ...(wait && (await answeredCall(tx, run, { callId: wait.id, payload }))),
    };
  });
  return { id, written: appended ? { ...appended, runId: signal.runId } : undefined };
}

/** That a signal has come: for `callId` alone, or for whatever waits for its type and name. */
export function signalEvent(
  run: RunRow,
  signal: Pick<PostedSignal, 'type' | 'name' | 'payload' | 'requestedBy' | 'replaced'> & {
    id: string;
    callId: string | undefined;
  },
): NewEvent {
  const { id: signal_id, type, name, payload = null, callId, requestedBy, replaced } = signal;
  const by = {
    ...(requestedBy !== undefined && { requested_by: requestedBy }),
    ...(replaced !== undefined && { replaced }),
  };
  const named = { ...(name !== undefined && { name }), payload, ...(callId !== undefined && { tool_call_id: callId }) };
  const turn_id = run.open_turn_id ?? undefined;
  return { type: 'signal.received', actor: 'user', turn_id, payload: { signal_id, type, ...named, ...by } };
}

/** Results of the client's tools as a signal; as a rule they come with the next turn. 409 for what no call waits for. */
export async function postResults(
  context: Context,
  posted: Pick<PostedSignal, 'tenantId' | 'runId' | 'id' | 'digest' | 'requestedBy' | 'replaced'> & {
    results: readonly ToolResult[];
  },
): Promise<{ id: string; isNew: boolean }> {
  const id = posted.id ?? newId();
  const { results, digest, requestedBy, replaced } = posted;
  const signal = { id, digest };
  const appended = await appendToRun(context, posted, (run, tx) =>
    takeResults(tx, run, { results, signal, requestedBy, replaced, limitBytes: context.config.runOutputBytes }),
  );
  return { id, isNew: appended !== null };
}
