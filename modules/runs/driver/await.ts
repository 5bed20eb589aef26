/** The ways a run comes to rest in the middle of a turn: rows wait for it, and nothing else does. */
import type { NewEvent, RunStatus } from '../../../core/events.ts';
import type { CallState } from '../../../core/state.ts';
import { mayBecome } from '../../../core/transitions.ts';
import { commit } from './commit.ts';
import { appendEvent } from '../../run-log/run-log.ts';
import type { DriveSession } from './session.ts';

/** Calls that workers or the client make. Undefined where others have written meanwhile: decide anew. */
export async function awaitCalls(session: DriveSession): Promise<'rest' | 'handed_over' | undefined> {
  if (session.log.state.status !== 'awaiting_tool') become(session, 'awaiting_tool');
  // Whatever the log did not know as sent when it was last committed is sent with this commit, and nothing twice;
  // reconciliation sees to jobs that were lost.
  const sent = new Set(session.log.base.calls.filter((call) => call.sent).map((call) => call.id));
  const unsent = session.log.state.calls.filter(
    (call) => call.mode === 'queued' && call.status === 'pending' && !sent.has(call.id),
  );
  if (unsent.length === 0) return (await commit(session, 'rest')) ? 'rest' : undefined;
  return (await commit(session, { awaitCalls: unsent })) ? 'handed_over' : undefined;
}

/** A person, a webhook or the time. Undefined where others have written meanwhile. */
export async function awaitPeople(session: DriveSession, calls: readonly CallState[]): Promise<'rest' | undefined> {
  if (session.log.state.status !== 'awaiting_human') {
    if (session.log.state.status === 'awaiting_tool') become(session, 'executing');
    appendEvent(session.log, {
      ...statusChanged(session, 'awaiting_human'),
      payload: { from: session.log.state.status, to: 'awaiting_human', waiting_for: waitingFor(calls) },
    });
  }
  return (await commit(session, 'rest')) ? 'rest' : undefined;
}

type WaitingFor = NonNullable<Extract<NewEvent, { type: 'run.status_changed' }>['payload']['waiting_for']>;

/** What somebody can do something about comes first: an approval, a question, a webhook, and the time last. */
function waitingFor(calls: readonly CallState[]): WaitingFor {
  // Where no call waits, a person is asked about a budget.
  const isAsked = (call: CallState) => call.mode !== 'wait' || call.status === 'awaiting_approval';
  if (calls.length === 0 || calls.some(isAsked)) return { type: 'approval' };
  for (const type of ['user', 'webhook', 'timer'] as const) {
    const wait = calls.find((call) => call.wait?.type === type)?.wait;
    if (wait) return { type, ...(wait.name !== null && { name: wait.name }) };
  }
  throw new Error('a run waits for nothing');
}

/** Each status on the way is an event; a transition that is not in the table cannot be expressed. */
export function become(session: DriveSession, ...way: RunStatus[]): void {
  for (const to of way) {
    const from = session.log.state.status;
    if (!mayBecome(from, to)) throw new Error(`a run cannot go from ${from} to ${to}`);
    appendEvent(session.log, statusChanged(session, to));
  }
}

function statusChanged(session: DriveSession, to: RunStatus): Extract<NewEvent, { type: 'run.status_changed' }> {
  const payload = { from: session.log.state.status, to };
  return { type: 'run.status_changed', actor: 'worker', turn_id: session.log.state.turn?.id, payload };
}
