/** Events of a tool call: requested, begun, ended. */
import type { Actor, NewEvent } from '../events.ts';
import type { Settlement } from '../ledger.ts';
import type { Trust } from '../origin.ts';
import type { CallState, RunState } from '../state.ts';
import { bytesOf } from '../tool-output.ts';
import { isUnvouched, type KeptSignal } from '../waits.ts';
import { askApproval, type Asked } from './approvals.ts';

type Payload<T extends NewEvent['type']> = Extract<NewEvent, { type: T }>['payload'];
type Problem = Payload<'tool.denied'>['error'];

/** How an attempt ended, if it is not retried. */
export type SettledAs = Exclude<Settlement, { status: 'retry' }>;

/** What happens to a call that an answer requests. */
export type RequestOutcome =
  /** Pure calls, and calls that others make or answer, or that wait for their call batch. */
  | { kind: 'open' }
  /** The driver begins the call with the commit of the request. */
  | { kind: 'begun' }
  | { kind: 'asked'; about: Asked['about'] }
  /** Answered from the record of an earlier run. */
  | { kind: 'recorded'; settled: CallSettled }
  | { kind: 'denied'; error: Problem }
  /** `attempt` counts consecutive answers without a valid intent; absent if the model is not at fault. */
  | { kind: 'invalid'; error: Problem; attempt: number | undefined };

interface RequestedCall {
  /** The payload of `tool.requested`. */
  call: Payload<'tool.requested'>;
  step: number;
  /** Decisions of the gate that merit an event. */
  decided: readonly NewEvent[];
  outcome: RequestOutcome;
}

/** An answer requests a call. */
export function requestCall(state: RunState, { call, step, decided, outcome }: RequestedCall): NewEvent[] {
  const by = { turn_id: state.turn?.id, step };
  return [
    { ...by, actor: 'agent', type: 'tool.requested', payload: call },
    ...decided,
    ...followUp(state, { call, step, outcome }),
  ];
}

function followUp(state: RunState, { call, step, outcome }: Omit<RequestedCall, 'decided'>): NewEvent[] {
  const { tool_call_id, tool_use_id, name } = call;
  const system = { turn_id: state.turn?.id, step, actor: 'system' as const };
  switch (outcome.kind) {
    case 'open':
      return [];
    case 'begun':
      return [{ ...system, actor: 'worker', type: 'tool.started', payload: { tool_call_id, attempt: 1 } }];
    case 'asked':
      return [askApproval(system.turn_id, { step, about: outcome.about })];
    case 'recorded':
      return [{ ...system, ...outcome.settled }];
    case 'denied':
      return [{ ...system, type: 'tool.denied', payload: { tool_call_id, error: outcome.error } }];
    case 'invalid': {
      const { error, attempt } = outcome;
      const rejected = { tool_call_id, tool_use_id, name, ...error };
      const failed = { tool_call_id, error, attempts: 0 };
      return [
        ...(attempt === undefined
          ? []
          : [{ ...system, type: 'intent.rejected' as const, payload: { ...rejected, attempt } }]),
        { ...system, type: 'tool.failed', payload: failed },
      ];
    }
  }
}

/** Another attempt of a call that the driver makes. */
export function beginAttempt({ turn }: RunState, callId: string, attempt: number): NewEvent {
  return { type: 'tool.started', actor: 'worker', turn_id: turn?.id, payload: { tool_call_id: callId, attempt } };
}

export interface SettledCall {
  callId: string;
  attempt: number;
  settlement: SettledAs;
  latencyMs: number;
}

/** The event that ends a call, without actor, turn and step. */
export type CallSettled = {
  [T in 'tool.succeeded' | 'tool.failed' | 'tool.unknown']: { type: T; payload: Payload<T> };
}['tool.succeeded' | 'tool.failed' | 'tool.unknown'];

/** The event for the outcome of an attempt, without actor, turn and step. */
export function settledEvent(settled: SettledCall): CallSettled {
  const { settlement, attempt, latencyMs: latency_ms } = settled;
  const tool_call_id = settled.callId;
  if (settlement.status === 'succeeded') {
    const output_bytes = bytesOf(settlement.output ?? null);
    const payload = { tool_call_id, latency_ms, output_bytes, ...taintOf(settlement), ...replacedOf(settlement) };
    return { type: 'tool.succeeded', payload };
  }
  const error = { code: settlement.code, message: settlement.message };
  if (settlement.status === 'unknown') {
    return { type: 'tool.unknown', payload: { tool_call_id, error, attempts: attempt } };
  }
  return {
    type: 'tool.failed',
    payload: {
      tool_call_id,
      error,
      attempts: attempt,
      latency_ms,
      ...taintOf(settlement),
      ...replacedOf(settlement),
    },
  };
}

/** That nobody vouches for the answer, even if its tool is trusted; empty if somebody does. */
function taintOf(settlement: SettledAs): { untrusted?: true } {
  return 'untrusted' in settlement && settlement.untrusted ? { untrusted: true } : {};
}

/** How many characters of the output could not be stored; empty if none. */
function replacedOf(settlement: SettledAs): { replaced?: number } {
  return 'replaced' in settlement && settlement.replaced !== undefined ? { replaced: settlement.replaced } : {};
}

/** An attempt of the current step has ended for good. */
export function settleCall({ turn, steps: step }: RunState, settled: SettledCall, actor: Actor): NewEvent {
  return { ...settledEvent(settled), actor, turn_id: turn?.id, step };
}

/** The call that an attempt was made for, whose trust is that of its answer. */
interface LateCall {
  turn_id: string;
  step: number;
  trust: Trust | null;
}

/** An attempt has ended after its call was declared of unknown outcome. */
export function resolveLate({ turn_id, step, trust }: LateCall, settled: SettledCall): NewEvent {
  const { callId: tool_call_id, settlement } = settled;
  const about = { type: 'tool.resolved' as const, actor: 'worker' as const, turn_id, step };
  const payload = {
    tool_call_id,
    outcome: settlement.status,
    by: 'late_result' as const,
    ...(trust === 'untrusted' ? { untrusted: true as const } : taintOf(settlement)),
    ...replacedOf(settlement),
  };
  if (settlement.status === 'succeeded') return { ...about, payload };
  return { ...about, payload: { ...payload, error: { code: settlement.code, message: settlement.message } } };
}

/** The decision `use_signal`: a signal that has come answers the call, and is consumed. */
export function useSignal(
  { turn, steps: step }: RunState,
  call: Pick<CallState, 'id'>,
  signal: Pick<KeptSignal, 'id' | 'payload' | 'callId'>,
): NewEvent {
  const output_bytes = bytesOf(signal.payload ?? null);
  const untrusted = isUnvouched(signal) && { untrusted: true as const };
  const payload = { tool_call_id: call.id, latency_ms: 0, output_bytes, ...untrusted, signal_id: signal.id };
  return { type: 'tool.succeeded', actor: 'user', turn_id: turn?.id, step, payload };
}
