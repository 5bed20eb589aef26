/** The state of a run and its fold: the only definition of what an event means for a run. */
import type { RunEvent, RunStatus } from './events.ts';
import { afterAnswer, forked, type ReplayState } from './replay-state.ts';
import type { ToolEffect } from './tool.ts';

export type CallStatus = 'pending' | 'running' | 'succeeded' | 'failed' | 'denied' | 'unknown';

export interface CallState {
  id: string;
  toolUseId: string;
  name: string;
  place: number;
  mode: 'cheap' | 'inline' | 'queued';
  effect: ToolEffect;
  status: CallStatus;
  attempt: number;
}

export interface TurnState {
  id: string;
  number: number;
  input: { message: string; attachments?: Record<string, unknown>[] | undefined };
  /** The user's message is in the conversation. */
  begun: boolean;
  steps: number;
  toolCalls: number;
  /** Driving time so far in ms: model calls and the tools that the driver ran, without waiting. */
  drivenMs: number;
  maxStepsReached: boolean;
  /** The answer that ends the turn, once the model has given one. */
  answer: { ordinal: number; stopReason: string } | null;
}

/** Plain JSON, so that a checkpoint can hold it. */
export interface RunState {
  seq: number;
  status: RunStatus;
  agentId: string;
  agentVersion: string;
  threadId: string;
  keepOpen: boolean;
  lineage: string;
  /** Messages of the conversation so far, those that the run started from included. */
  length: number;
  turnCount: number;
  /** Model calls over all turns. */
  steps: number;
  turn: TurnState | null;
  /** A model call that was announced and has not answered. */
  modelCall: { step: number; toolChoice: 'auto' | 'none'; failures: number } | null;
  /** The calls of the current step. */
  calls: CallState[];
}

export const isSettled = (call: CallState) => call.status !== 'pending' && call.status !== 'running';

/** Folds one event into the state. Pure; `state` is not changed. The first event of a run is `run.created`. */
export function fold(state: RunState | null, event: RunEvent): RunState {
  if (event.type === 'run.created') {
    if (state || event.seq !== 1) throw new Error(`event ${event.seq} creates the run anew`);
    return created(event);
  }
  if (!state) throw new Error(`the log of a run starts with ${event.type} instead of run.created`);
  if (event.seq !== state.seq + 1) throw new Error(`event ${event.seq} follows ${state.seq}: the log has a gap`);
  return { ...state, ...changeOf(state, event), seq: event.seq };
}

/** Folds a whole log, or what follows a state. */
  replay: ReplayState | null;
  /** The channel of that name: data that a client has put there. */
  custom: Record<string, unknown>;
export function foldAll(state: RunState | null, events: readonly RunEvent[]): RunState | null {
  return events.reduce<RunState | null>(fold, state);
}

function created(event: Extract<RunEvent, { type: 'run.created' }>): RunState {
  const { payload } = event;
  return {
    seq: event.seq,
    status: 'created',
    agentId: payload.agent_id,
    agentVersion: payload.agent_version,
    threadId: payload.thread_id,
    keepOpen: payload.keep_open,
    lineage: payload.lineage,
    length: payload.base_length,
    turnCount: 0,
    steps: 0,
    turn: null,
    modelCall: null,
    calls: [],
    replay: null,
    custom: {},
  };
}

function changeOf(state: RunState, event: RunEvent): Partial<RunState> {
  switch (event.type) {
    case 'run.forked':
      return forked(event);
    case 'run.status_changed':
      return { status: event.payload.to };
    case 'turn.started':
      return startTurn(state, event);
    case 'turn.completed':
    case 'turn.failed':
    case 'turn.interrupted':
      return { turn: null, modelCall: null, calls: [] };
    case 'run.max_steps_reached':
      return onTurn(state, { maxStepsReached: true });
    case 'model.called':
      return callModel(state, event);
    case 'model.responded':
      return takeResponse(state, event);
    case 'model.failed':
      return state.modelCall ? { modelCall: { ...state.modelCall, failures: state.modelCall.failures + 1 } } : {};
    default:
      return event.type.startsWith('tool.') ? changeCall(state, event) : {};
  }
}

function onTurn(state: RunState, change: Partial<TurnState>): Partial<RunState> {
  return state.turn ? { turn: { ...state.turn, ...change } } : {};
}

function startTurn(state: RunState, event: Extract<RunEvent, { type: 'turn.started' }>): Partial<RunState> {
  const turn: TurnState = {
    id: event.turn_id ?? '',
    number: event.payload.number,
    input: event.payload.input,
    begun: event.payload.continues !== undefined,
    steps: event.payload.continues?.steps ?? 0,
    toolCalls: event.payload.continues?.tool_calls ?? 0,
    drivenMs: 0,
    maxStepsReached: false,
    answer: null,
  };
  return { turn, turnCount: event.payload.number, calls: [], modelCall: null };
}

function callModel(state: RunState, event: Extract<RunEvent, { type: 'model.called' }>): Partial<RunState> {
  const { payload } = event;
  return {
    ...onTurn(state, { begun: true }),
    length: payload.length,
    modelCall: { step: event.step ?? 0, toolChoice: payload.tool_choice, failures: 0 },
  };
}

function takeResponse(state: RunState, event: Extract<RunEvent, { type: 'model.responded' }>): Partial<RunState> {
  const { ordinal, tool_calls: toolCalls, stop_reason: stopReason, latency_ms: latencyMs } = event.payload;
  const turn = state.turn;
  // A model that pauses is asked again, but not beyond the limit: the turn has to end.
  const isAnswer = toolCalls === 0 && (stopReason !== 'pause_turn' || turn?.maxStepsReached === true);
  return {
    ...(turn && {
      turn: {
        ...turn,
        steps: turn.steps + 1,
        toolCalls: turn.toolCalls + toolCalls,
        drivenMs: turn.drivenMs + latencyMs,
        answer: isAnswer ? { ordinal, stopReason } : null,
      },
    }),
    steps: state.steps + 1,
    // The results of tool calls are one message of references, written together with the calls.
    length: ordinal + (toolCalls > 0 ? 2 : 1),
    modelCall: null,
    calls: [],
    ...(state.replay && { replay: afterAnswer(state.replay, event.payload.recorded ?? false) }),
  };
}

type ToolEvent = Extract<RunEvent, { type: `tool.${string}` }>;

function changeCall(state: RunState, event: RunEvent): Partial<RunState> {
  const tool = event as ToolEvent;
  if (tool.type === 'tool.requested') {
    const { payload } = tool;
    const call: CallState = {
      id: payload.tool_call_id,
      toolUseId: payload.tool_use_id,
      name: payload.name,
      place: payload.place,
      mode: payload.mode,
      effect: payload.effect,
      // A cheap call is born running: no event of its own tells its start.
      status: payload.mode === 'cheap' ? 'running' : 'pending',
      attempt: payload.mode === 'cheap' ? 1 : 0,
    };
    return { calls: [...state.calls, call] };
  }
  const calls = state.calls.map((call) => (call.id === tool.payload.tool_call_id ? settleCall(call, tool) : call));
  const call = state.calls.find((item) => item.id === tool.payload.tool_call_id);
  const drivenMs = call && call.mode !== 'queued' && 'latency_ms' in tool.payload ? (tool.payload.latency_ms ?? 0) : 0;
  return { calls, ...(state.turn && drivenMs > 0 ? onTurn(state, { drivenMs: state.turn.drivenMs + drivenMs }) : {}) };
}

function settleCall(call: CallState, event: Exclude<ToolEvent, { type: 'tool.requested' }>): CallState {
  switch (event.type) {
    case 'tool.started':
      return { ...call, status: 'running', attempt: event.payload.attempt };
    case 'tool.succeeded':
      return { ...call, status: 'succeeded' };
    case 'tool.failed':
      return { ...call, status: 'failed' };
    case 'tool.denied':
      return { ...call, status: 'denied' };
    case 'tool.unknown':
      return { ...call, status: 'unknown' };
  }
}
