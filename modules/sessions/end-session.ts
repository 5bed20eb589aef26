/** A person stops a session's turn, or deletes the session. */
import type { Caller } from '../../core/caller.ts';
import { isTerminal } from '../../core/events.ts';
import { sessionStatus, type SessionStatus } from '../../core/session-status.ts';
import type { Tx } from '../../db/database.ts';
import { lockThread } from '../../db/threads.ts';
import { archiveSession, findSessionHead, touchSession } from '../../db/sessions.ts';
import { recordAudit } from '../audit/record-audit.ts';
import type { Context } from '../governance/context.ts';
import { announceAppended, appendIn, appendToRun } from '../run-log/append-to-run.ts';
import type { CancelledRun } from '../runs/cancel-children.ts';
import { cancelIn, tellCancelled } from '../runs/end-run.ts';
import { announceInterruption, interruptedTurn } from '../runs/interrupt-turn.ts';
import { announceThread } from '../runs/listen-to-thread.ts';
import { waitingMessage } from '../runs/message-queue.ts';
import { requireSession } from './session.ts';

interface SessionRef {
  caller: Caller;
  sessionId: string;
}

/** Result of an interruption. `stopped`: a turn was open; `queued`: the message that begins the next turn. */
interface Interrupted {
  stopped: boolean;
  status: SessionStatus;
  queued: string | undefined;
}

/**
 * Stops the turn open at the time of the request; a waiting message begins the next one. Does nothing if none is open, or it
 * has ended meanwhile, even in a deleted session: stopping in two places, or twice, stops no turn that nobody has seen.
 */
export async function interruptSession(context: Context, { caller, sessionId }: SessionRef): Promise<Interrupted> {
  const { tenantId } = caller;
  const read = () => context.db.withTenant(tenantId, (tx) => requireSession(tx, caller, sessionId));
  const { run, facts } = await read();
  if (!run?.open_turn_id) return { stopped: false, status: sessionStatus(facts), queued: undefined };
  let queued: string | undefined;
  const appended = await appendToRun(context, { tenantId, runId: run.id }, async (now, tx) => {
    if (isTerminal(now.status) || now.open_turn_id !== run.open_turn_id) return null;
    queued = waitingMessage(now)?.input.message;
    await touchSession(tx, sessionId);
    const error = { code: 'interrupted', message: 'The user interrupted the turn before the call had a result.' };
    return interruptedTurn(tx, now, { reason: 'interrupt', error });
  });
  if (!appended) return { stopped: false, status: sessionStatus((await read()).facts), queued: undefined };
  announceInterruption(context, appended);
  return { stopped: true, status: 'interrupted', queued };
}

/** Deletes the session and cancels its run; its log stays. Repeating it changes nothing. Throws 404. */
export async function deleteSession(context: Context, { caller, sessionId }: SessionRef): Promise<void> {
  const { tenantId } = caller;
  const { place, cancelled } = await context.db.withTenant(tenantId, async (tx) => {
    // Locked, so that no message begins another run meanwhile.
    await lockThread(tx, sessionId);
    const { run } = await requireSession(tx, caller, sessionId);
    // Before the session's row, as whoever decides or stops holds the run when it changes the session.
    const ended = run && (await cancelOfSession(tx, caller, run.id));
    if (await archiveSession(tx, sessionId)) {
      await recordAudit(tx, caller, { action: 'session.deleted', target: ['session', sessionId] });
    }
    const head = await findSessionHead(tx, sessionId);
    return { place: head?.place ?? 0, cancelled: ended };
  });
  // Tells those who wait for the next run that there will be none.
  announceThread(context.bus, sessionId, place + 1);
  if (!cancelled) return;
  const { below, ...appended } = cancelled;
  const { run, fence } = appended;
  announceAppended(context, { ...appended, runId: run.id });
  tellCancelled(context, { runId: run.id, fence, below });
}

/** Cancels the run in the same transaction, so that no deleted session has a run that continues. Null if the run has ended. */
async function cancelOfSession(tx: Tx, caller: Caller, runId: string) {
  let below: CancelledRun[] = [];
  const appended = await appendIn(tx, { tenantId: caller.tenantId, runId }, async (run) => {
    if (isTerminal(run.status)) return null;
    const { change, cancelled } = await cancelIn(tx, run, { by: caller, reason: 'The session was deleted.' });
    below = cancelled;
    return change;
  });
  return appended && { ...appended, below };
}
