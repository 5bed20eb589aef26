/** Events that end a run or a turn from outside. The turn's event comes last, since it ends streams. */
import type { Actor, NewEvent, RunStatus } from '../events.ts';
import { statusChanged } from './turns.ts';

/** An unfinished run, with its open turn if any. */
export interface OpenRun {
  status: RunStatus;
  turnId: string | undefined;
}

/** Somebody cancels the run. */
export function endAsCancelled({ status: from, turnId }: OpenRun, reason: string | undefined): NewEvent[] {
  const by = { actor: 'user' as const, turn_id: turnId };
  const interrupted: NewEvent = { ...by, type: 'turn.interrupted', payload: { reason: 'cancel' } };
  return [
    { ...by, type: 'run.cancel_requested', payload: reason === undefined ? {} : { reason } },
    statusChanged({ from, to: 'cancelled', turnId, actor: 'user' }),
    { ...by, type: 'run.cancelled', payload: {} },
    ...(turnId === undefined ? [] : [interrupted]),
  ];
}

/** A person ends the open turn, but not the run. Statuses before the first turn are passed through on the way. */
export function interruptTurn({ status, turnId }: OpenRun, reason: 'interrupt' | 'reject'): NewEvent[] {
  const by = { actor: 'user' as const, turn_id: turnId };
  const way = WAY_TO_WAITING[status] ?? ['awaiting_human'];
  return [
    ...(status === 'created' ? [{ ...by, type: 'run.started' as const, payload: {} }] : []),
    ...way.map((to, index) => statusChanged({ from: way[index - 1] ?? status, to, turnId, actor: 'user' })),
    { ...by, type: 'turn.interrupted', payload: { reason } },
  ];
}

/** Intermediate statuses for those that have no direct transition to `awaiting_human`. */
const WAY_TO_WAITING: Partial<Record<RunStatus, RunStatus[]>> = {
  created: ['initializing', 'planning', 'awaiting_human'],
  initializing: ['planning', 'awaiting_human'],
  awaiting_human: ['planning', 'awaiting_human'],
};

/** Somebody completes the run between turns, or it was idle for too long. */
export function endAsCompleted(
  { status: from }: Pick<OpenRun, 'status'>,
  actor: Actor,
  stopReason: string,
): NewEvent[] {
  return [
    statusChanged({ from, to: 'completed', turnId: undefined, actor }),
    { type: 'run.completed', actor, payload: { stop_reason: stopReason } },
  ];
}

/** The run could not be driven. */
export function endAsFailed({ status: from, turnId }: OpenRun, error: { code: string; message: string }): NewEvent[] {
  const by = { actor: 'system' as const, turn_id: turnId };
  const failed: NewEvent = { ...by, type: 'turn.failed', payload: { error } };
  return [
    statusChanged({ from, to: 'failed', turnId, actor: 'system' }),
    { ...by, type: 'run.failed', payload: { error } },
    ...(turnId === undefined ? [] : [failed]),
  ];
}
