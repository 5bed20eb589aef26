/** Events of calls that are answered from outside. */
import type { NewEvent } from '../events.ts';
import type { RunState } from '../state.ts';
import type { CallSettled } from './tool-calls.ts';
import { changeStatus } from './turns.ts';

type Payload<T extends NewEvent['type']> = Extract<NewEvent, { type: T }>['payload'];

/** The decision `open_waits`, for one call that a person, a webhook or time answers. */
export function requestInput({ turn, steps: step }: RunState, payload: Payload<'input.requested'>): NewEvent {
  return { type: 'input.requested', actor: 'agent', turn_id: turn?.id, step, payload };
}

/** The decision `open_waits`, for all calls of the client's own tools. It is told last, since its stream ends there. */
export function askClient(state: RunState, payload: Payload<'client_tools.requested'>): NewEvent[] {
  const changed = state.status === 'awaiting_tool' ? [] : changeStatus(state, 'awaiting_tool');
  const by = { turn_id: state.turn?.id, step: state.steps };
  return [...changed, { ...by, type: 'client_tools.requested', actor: 'agent', payload }];
}

/** The client has sent some of its results: it is asked for the rest again. */
export function askClientAgain(turnId: string | undefined, left: readonly string[]): NewEvent[] {
  if (left.length === 0) return [];
  const payload = { tool_call_ids: [...left] };
  return [{ type: 'client_tools.requested', actor: 'system', turn_id: turnId, payload }];
}

/** A wait has timed out: that answers a timer, and fails any other wait. */
export function fireTimer(
  turnId: string | undefined,
  payload: Payload<'timer.fired'>,
  settled: CallSettled,
): NewEvent[] {
  const by = { actor: 'system' as const, turn_id: turnId };
  return [
    { ...by, type: 'timer.fired', payload },
    { ...by, ...settled },
  ];
}
