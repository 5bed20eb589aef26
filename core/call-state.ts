/** The state of one tool call, and what its events mean for it. */
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
  /** A queued call whose job was sent; one that an approval has freed meanwhile is not yet. */
  sent: boolean;
  /** Whether a person has been asked about an unknown outcome, or has settled it. */
  asked: 'no' | 'yes' | 'settled';
  /** The approval that was opened last for this call. */
  approvalId: string | null;
  /** What the call waits for from outside, once its wait is open. */
  wait: Wait | null;
  /** Nobody vouches for what it answers. */
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

/** A pure call is inserted running: no event of its own tells its start. */
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
      return { ...call, status: 'succeeded', ...(event.payload.untrusted && { untrusted: true as const }) };
    case 'tool.failed':
      return { ...call, status: 'failed' };
    case 'tool.denied':
      return { ...call, status: 'denied' };
    case 'tool.unknown':
      return { ...call, status: 'unknown' };
    case 'tool.resolved':
      return { ...call, status: event.payload.outcome, asked: 'settled' };
  }
}

/** The call once it waits for something from outside; one whose work goes on elsewhere is still to be looked at. */
export function waitingCall(call: CallState, wait: NonNullable<CallState['wait']>): CallState {
  return call.mode === 'queued' ? { ...call, wait } : { ...call, status: 'running', attempt: 1, wait };
}

/** The calls once work that goes on elsewhere has got its answer; undefined where no such call was meant. */
export function answered(calls: readonly CallState[], callId: string | null): { calls: CallState[] } | undefined {
  if (!calls.some(({ id, mode }) => id === callId && mode === 'queued')) return undefined;
  return { calls: calls.map((call) => (call.id === callId ? { ...call, wait: null } : call)) };
}
