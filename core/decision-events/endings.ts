/** Events of a run that ends otherwise than by its own decision. The turn's event comes last: a stream ends with it. */
import type { Actor, NewEvent, RunStatus } from '../events.ts';
import { statusChanged } from './turns.ts';

/** A run that has not ended, with its open turn. */
export interface OpenRun {
  status: RunStatus;
  turnId: string | undefined;
}

/** Events of a run that somebody cancels. */
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

/** Events of a run that somebody completes between turns, or that was idle for too long. */
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

/** Events of a run that could not be driven. */
export function endAsFailed({ status: from, turnId }: OpenRun, error: { code: string; message: string }): NewEvent[] {
  const by = { actor: 'system' as const, turn_id: turnId };
  const failed: NewEvent = { ...by, type: 'turn.failed', payload: { error } };
  return [
    statusChanged({ from, to: 'failed', turnId, actor: 'system' }),
    { ...by, type: 'run.failed', payload: { error } },
    ...(turnId === undefined ? [] : [failed]),
  ];
}
