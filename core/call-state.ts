/** The state of one tool call, and how its events change it. */
import type { RunEvent } from './events.ts';
import type { ToolEffect } from './tool.ts';
import type { Wait } from './waits.ts';

export type CallStatus = 'awaiting_approval' | 'pending' | 'running' | 'succeeded' | 'failed' | 'denied' | 'unknown';

export interface CallState {
  id: string;
  toolUseId: string;
  name: string;
  place: number;
  mode: 'pure' | 'inline' | 'queued' | 'wait';
  effect: ToolEffect;
  status: CallStatus;
  attempt: number;
  /** The job of a queued call was sent; false again after an approval, until it is. */
  sent: boolean;
  /** Whether a person was asked about an unknown outcome, or has settled it. */
  asked: 'no' | 'yes' | 'settled';
  /** The last approval opened for this call. */
  approvalId: string | null;
  /** The open wait for something outside, if any. */
  wait: Wait | null;
  /** Nobody vouches for its answer. */
  untrusted?: true;
}

type ToolEvent = Extract<RunEvent, { type: `tool.${string}` }>;
type Requested = Extract<ToolEvent, { type: 'tool.requested' }>;

/** A call that the model has just asked for. */
export function newCall({ payload }: Requested): CallState {
  return {
    id: payload.tool_call_id,
    toolUseId: payload.tool_use_id,
    name: payload.name,
    place: payload.place,
    mode: payload.mode,
    effect: payload.effect,
    status: FIRST_STATUS[payload.mode],
    attempt: FIRST_STATUS[payload.mode] === 'running' ? 1 : 0,
    sent: false,
    asked: 'no',
    approvalId: null,
    wait: null,
    ...(payload.untrusted && { untrusted: true as const }),
  };
}

/** Pure calls are inserted running: no event of their own announces their start. */
const FIRST_STATUS: Record<CallState['mode'], CallStatus> = {
  pure: 'running',
  inline: 'pending',
  queued: 'pending',
  wait: 'pending',
};

/** The call after an event of its own. */
export function foldCall(call: CallState, event: Exclude<ToolEvent, Requested>): CallState {
  switch (event.type) {
    case 'tool.started':
      return { ...call, status: 'running', attempt: event.payload.attempt };
    case 'tool.succeeded':
      return { ...call, status: 'succeeded', ...untrustedOf(event) };
    case 'tool.failed':
      return { ...call, status: 'failed', ...untrustedOf(event) };
    case 'tool.denied':
      return { ...call, status: 'denied' };
    case 'tool.unknown':
      return { ...call, status: 'unknown' };
    case 'tool.resolved':
      return { ...call, status: event.payload.outcome, asked: 'settled', ...untrustedOf(event) };
  }
}

function untrustedOf({ payload }: { payload: { untrusted?: true | undefined } }): { untrusted?: true } {
  return payload.untrusted ? { untrusted: true } : {};
}

/** The call, once the job of each pending one is sent. */
export function sentCall(call: CallState): CallState {
  return call.status === 'pending' ? { ...call, sent: true } : call;
}

/** The calls of which some begin to wait. */
export function startWait(
  state: { calls: readonly CallState[] },
  ids: readonly string[],
  { type, name = null }: { type: Wait['type']; name?: string | null | undefined },
): { calls: CallState[] } {
  return { calls: state.calls.map((call) => (ids.includes(call.id) ? waitingCall(call, { type, name }) : call)) };
}

/** The call with its open wait. One whose work goes on elsewhere keeps its status, and is looked at again. */
function waitingCall(call: CallState, wait: NonNullable<CallState['wait']>): CallState {
  return call.mode === 'queued' ? { ...call, wait } : { ...call, status: 'running', attempt: 1, wait };
}

/** The calls after the remote work of one got an answer it needs; undefined if `callId` is no such call. */
export function answered(calls: readonly CallState[], callId: string | null): { calls: CallState[] } | undefined {
  if (!calls.some(({ id, mode }) => id === callId && mode === 'queued')) return undefined;
  return { calls: calls.map((call) => (call.id === callId ? { ...call, wait: null } : call)) };
}
