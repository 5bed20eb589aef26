/** The state of a run and its fold: the single definition of each event's meaning for a run. */
import type { Calibration } from './calibration.ts';
import { carriedAfter, estimateOf, learnedFrom, takenOver, type Refused } from './carried.ts';
import { approvalChange } from './approval-state.ts';
import { checkChange, reflectionChange, type FinalAnswer, type Misfit, type Reflection } from './answer-state.ts';
import { budgetChange, NO_BUDGET, type BudgetState } from './budget-state.ts';
import { answered, foldCall, newCall, sentCall, startWait, type CallState, type CallStatus } from './call-state.ts';
import type { Compaction } from './compaction.ts';
import { countDenied, type DeniedCalls } from './denied-calls.ts';
import { contextChange, type ContextCut } from './context-state.ts';
import type { RunEvent, RunStatus, TurnInput } from './events.ts';
import { answeredTo, asked, taintBySteering, taintedBy, taintOfAnswer, taintOfStart, type Reading } from './taint.ts';
import { unreadAfter, unreadAtEnd } from './taint.ts';
import { afterAnswer, forked, type ReplayState } from './replay-state.ts';
import { completedNode, enteredNode } from './graph/graph-state.ts';
import { goTo, type GraphState } from './graph/position.ts';
import type { KeptSignal } from './waits.ts';
import { ended, interrupted, queueChange, type QueuedMessage, type ReadMessage } from './message-queue.ts';
import { modelTrouble, noLongerDeferred, type Deferral, type ModelCallState } from './model-call-state.ts';

export type { CallState, CallStatus } from './call-state.ts';
export type { Deferral, ModelCallState } from './model-call-state.ts';

export interface TurnState {
  id: string;
  number: number;
  input: TurnInput;
  /** Of the request that has begun a later turn than the first. Turns of 0.1.0 that are restored from a checkpoint lack it. */
  traceparent?: string;
  /** The turn's message is in the conversation. */
  begun: boolean;
  /** Length of the conversation before the turn. */
  from?: number;
  steps: number;
  toolCalls: number;
  /** Driving time so far in ms: model calls and tools run by the driver, without waits. */
  drivenMs: number;
  maxStepsReached: boolean;
  /** The answer that ends the turn, once the model has given one. */
  answer: FinalAnswer | null;
  /** The last answer does not fit: the model is told, or no retries are left. */
  misfit?: Misfit;
  /** The result of reflection on the last answer: the model is told of gaps, or the turn ends. */
  reflection?: Reflection;
  /** The model's last message in this turn, shown if the turn has to stop. */
  lastOrdinal: number | null;
  /** The event with the turn's memories. */
  memory?: { seq: number };
  /** Indexes of the worked examples that the turn's model calls show, if the agent has more. */
  examples?: number[];
  /** Sequence numbers of events that brought untrusted content. */
  untrusted?: number[];
  /** No budget is left: the turn stops with what it has. */
  outOfBudget: boolean;
  /** The last step with an invalid intent, and how many consecutive answers up to it had no valid one. */
  invalid?: { step: number; answers: number; empty?: { code: string; message: string } };
}

/** Plain JSON, so that a checkpoint can hold it. */
export interface RunState extends DeniedCalls, Reading, Refused {
  seq: number;
  status: RunStatus;
  agentId: string;
  agentVersion: string;
  threadId: string;
  keepOpen: boolean;
  lineage: string;
  /** Messages of the conversation, including those that the run started from. */
  length: number;
  turnCount: number;
  /** Model calls over all turns. */
  steps: number;
  turn: TurnState | null;
  /** The first message that models get; absent if nothing was left out yet. */
  firstKept?: number;
  /** What replaces the beginning of the conversation. */
  compaction?: Compaction;
  /** Set if the run waits before its next model call is announced: for a summary of the conversation. */
  deferred?: Deferral | undefined;
  /** The token budget that this cut was made for, and the estimated tokens of the messages before it. */
  cut?: ContextCut;
  /** The last container of the provider's code. */
  containerId?: string;
  /** Correction of token estimates. */
  calibration?: Calibration;
  /** A model call that was announced and not answered yet. */
  modelCall: ModelCallState | null;
  /** The calls of the current step. */
  calls: CallState[];
  /** The open call batch of the current step. Checkpoints use this name. */
  plan?: { id: string; calls: string[] } | null;
  /** Unconsumed signals, oldest first. */
  signals: KeptSignal[];
  /** The message waiting for its turn. */
  queued?: QueuedMessage | null;
  /** The conversation moves to another agent when the turn ends, and a waiting message with it. */
  isHandedOver?: boolean;
  /** Messages of turns interrupted before a model read them: they start the next turn. */
  unread?: TurnInput[];
  /** Sequence numbers of events that brought untrusted content which no model has read: they taint the next turn. */
  untrustedUnread?: number[];
  /** Ordinals of messages that came in the middle of a turn, and start none. */
  steered?: number[];
  /** What the turn had read in the run that this one was forked from, and is to read again. */
  toRead?: ReadMessage[];
  replay: ReplayState | null;
  budget: BudgetState;
  /** The channel `custom`: data put there by a client. */
  custom: Record<string, unknown>;
  /** Sequence number of the last event that changed it. */
  customAt?: number;
  /** Position in the agent's graph; absent without a graph, null at the beginning of a turn. */
  graph?: GraphState | null;
}

const OPEN: readonly CallStatus[] = ['awaiting_approval', 'pending', 'running'];

export const isSettled = (call: Pick<CallState, 'status'>) => !OPEN.includes(call.status);

/** Applies one event. Pure; returns a new state. The first event of a run is `run.created`. */
export function fold(state: RunState | null, event: RunEvent): RunState {
  if (event.type === 'run.created') {
    if (state || event.seq !== 1) throw new Error(`event ${event.seq} creates the run anew`);
    return created(event);
  }
  if (!state) throw new Error(`the log of a run starts with ${event.type} instead of run.created`);
  if (event.seq !== state.seq + 1) throw new Error(`event ${event.seq} follows ${state.seq}: the log has a gap`);
  return Object.assign({ ...state }, changeOf(state, event), countDenied(state, event), { seq: event.seq });
}

/** Folds a whole log, or the events after a given state. */
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
    signals: [],
    replay: null,
    budget: NO_BUDGET,
    custom: {},
    ...unreadAfter({}, event),
    ...(payload.context && { compaction: payload.context, firstKept: payload.context.first_kept_ordinal }),
    ...takenOver(payload),
  };
}

function changeOf(state: RunState, event: RunEvent): Partial<RunState> {
  const trouble = modelTrouble(state, event);
  if (trouble) return { ...trouble, ...learnedFrom(state, event) };
  const change = budgetChange(state, event) ?? queueChange(state, event) ?? approvalChange(state, event);
  if (change) return { ...change, ...taintBySteering(state.turn, event) };
  switch (event.type) {
    case 'run.forked':
      return { ...forked(event), ...unreadAfter(state, event) };
    case 'run.status_changed':
      return changeStatus(state, event.payload.to);
    case 'turn.started':
      return startTurn(state, event);
    case 'turn.completed':
    case 'turn.failed':
    case 'turn.interrupted':
      return { ...endTurn(state, event), ...noLongerDeferred(state) };
    case 'memory.retrieved':
      return onTurn(state, { memory: { seq: event.seq }, ...taintedBy(state.turn, event) });
    case 'run.max_steps_reached':
      return onTurn(state, { maxStepsReached: true });
    case 'model.called':
      return callModel(state, event);
    case 'model.responded':
      return takeResponse(state, event);
    case 'answer.validated':
    case 'answer.rejected':
      return checkChange(state, event);
    case 'reflection.completed':
      return reflectOn(state, event);
    case 'context.compacted':
    case 'context.transformed':
      return contextChange(event);
    case 'workflow.concluded':
      return { ...onTurn(state, { lastOrdinal: event.payload.ordinal }), length: event.payload.length };
    case 'intent.rejected':
      return rejectIntent(state, event);
    case 'node.entered':
      return enterNode(state, event);
    case 'node.completed':
      return completeNode(state, event);
    case 'plan.proposed':
      return { plan: { id: event.payload.plan_id, calls: event.payload.steps.map((step) => step.tool_call_id) } };
    case 'plan.rejected':
    case 'plan.refined':
    case 'plan.completed':
      return { plan: null };
    case 'input.requested':
      return startWait(state, [event.payload.tool_call_id], event.payload);
    case 'client_tools.requested':
      return startWait(state, event.payload.tool_call_ids, { type: 'tool_results' });
    case 'signal.received':
      return keepSignal(state, event);
    default:
      return event.type.startsWith('tool.') ? changeCall(state, event) : {};
  }
}

/** A run that waits has sent the jobs of its calls. */
function changeStatus(state: RunState, status: RunStatus): Partial<RunState> {
  const waits = status === 'awaiting_tool' || status === 'awaiting_human';
  return waits ? { status, calls: state.calls.map(sentCall) } : { status };
}

function endTurn(state: RunState, { type }: RunEvent): Partial<RunState> {
  return { ...(type === 'turn.interrupted' ? interrupted(state) : ended(state)), ...unreadAtEnd(state) };
}

function keepSignal(state: RunState, event: Extract<RunEvent, { type: 'signal.received' }>): Partial<RunState> {
  const { signal_id: id, type, name = null, payload, tool_call_id: callId = null } = event.payload;
  // Results of client calls, and input for work elsewhere, are in the ledger already.
  if (type === 'tool_results') return {};
  return answered(state.calls, callId) ?? { signals: [...state.signals, { id, type, name, payload, callId }] };
}

function onTurn(state: RunState, change: Partial<TurnState>): Partial<RunState> {
  return state.turn ? { turn: { ...state.turn, ...change } } : {};
}

function startTurn(state: RunState, event: Extract<RunEvent, { type: 'turn.started' }>): Partial<RunState> {
  const { number, input, continues, traceparent } = event.payload;
  const started = { id: event.turn_id ?? '', number, input, begun: continues !== undefined, from: state.length };
  const turn: TurnState = {
    ...started,
    ...(traceparent !== undefined && { traceparent }),
    steps: continues?.steps ?? 0,
    toolCalls: continues?.tool_calls ?? 0,
    drivenMs: 0,
    maxStepsReached: false,
    answer: null,
    lastOrdinal: null,
    outOfBudget: false,
    ...taintOfStart(state, event),
  };
  const isNew = continues === undefined && state.graph;
  // A run that handed its conversation over starts no other turn, unless the handover fails.
  const keeps = state.isHandedOver && { isHandedOver: false };
  return { turn, turnCount: number, calls: [], modelCall: null, ...keeps, ...(isNew && { graph: null }) };
}

/** Nodes that make a call count as a step. */
function enterNode(state: RunState, event: Extract<RunEvent, { type: 'node.entered' }>): Partial<RunState> {
  const { turn, replay, steps } = state;
  const { length, ordinal } = event.payload;
  const makesCall = ordinal !== undefined;
  const counted = makesCall && turn ? { steps: turn.steps + 1, toolCalls: turn.toolCalls + 1 } : {};
  return {
    graph: enteredNode(state.graph, event),
    ...onTurn(state, { begun: true, answer: null, ...counted }),
    ...(state.unread && { unread: [] }),
    length,
    ...(makesCall && { steps: steps + 1, calls: [], ...(replay && { replay: { ...replay, redo: null } }) }),
  };
}

/** The model answer of the node that ends the graph is the turn's answer. */
function completeNode(state: RunState, event: Extract<RunEvent, { type: 'node.completed' }>): Partial<RunState> {
  const { custom, answer, length, ends = false } = event.payload;
  if (!state.graph) return {};
  const ofTurn = answer === undefined ? null : (answerAt(state, answer) ?? { ordinal: answer, stopReason: 'end_turn' });
  return {
    graph: completedNode(state.graph, event),
    ...onTurn(state, { answer: ends ? ofTurn : null, ...(ends && ofTurn && { lastOrdinal: ofTurn.ordinal }) }),
    length,
    ...(custom && { custom: { ...state.custom, ...custom }, customAt: event.seq }),
  };
}

/** In a graph, continues at the node whose model must fill the gaps. */
function reflectOn(state: RunState, event: Extract<RunEvent, { type: 'reflection.completed' }>): Partial<RunState> {
  const { graph } = state;
  const again = graph && !event.payload.last && { graph: goTo(graph, { node: graph.node, from: graph.from }, false) };
  return { ...reflectionChange(state.turn, event), ...again };
}

function answerAt({ turn }: RunState, ordinal: number): TurnState['answer'] {
  return turn?.answer?.ordinal === ordinal ? turn.answer : null;
}

/** Without a call, the answer as a whole is invalid: it is empty. */
function rejectIntent(state: RunState, event: Extract<RunEvent, { type: 'intent.rejected' }>): Partial<RunState> {
  const { attempt: answers, tool_call_id: callId, code, message } = event.payload;
  const empty = callId === undefined ? { empty: { code, message } } : {};
  return onTurn(state, { invalid: { step: state.steps, answers, ...empty } });
}

function callModel(state: RunState, event: Extract<RunEvent, { type: 'model.called' }>): Partial<RunState> {
  const { payload } = event;
  const { tool_choice: toolChoice } = payload;
  if (typeof toolChoice === 'object') return {};
  return {
    ...onTurn(state, { begun: true, ...(payload.examples && { examples: payload.examples }) }),
    ...(state.unread && { unread: [] }),
    ...asked(state, event),
    length: payload.length,
    modelCall: { step: event.step ?? 0, toolChoice, failures: 0, retries: 0, ...estimateOf(payload) },
  };
}

function takeResponse(state: RunState, event: Extract<RunEvent, { type: 'model.responded' }>): Partial<RunState> {
  const { ordinal, tool_calls: toolCalls, stop_reason: stopReason, latency_ms: latencyMs } = event.payload;
  const { empty = false } = event.payload;
  const turn = state.turn;
  if (event.payload.tool !== undefined) return onTurn(state, { drivenMs: (turn?.drivenMs ?? 0) + latencyMs });
  // A model that pauses is asked again, except at the step limit, where the turn has to end.
  const isAnswer = toolCalls === 0 && !empty && (stopReason !== 'pause_turn' || turn?.maxStepsReached === true);
  return {
    ...(turn && {
      turn: {
        ...turn,
        steps: turn.steps + 1,
        toolCalls: turn.toolCalls + toolCalls,
        drivenMs: turn.drivenMs + latencyMs,
        answer: isAnswer ? { ordinal, stopReason } : null,
        lastOrdinal: empty ? turn.lastOrdinal : ordinal,
        ...(event.payload.untrusted && taintedBy(state.turn, event)),
      },
    }),
    steps: state.steps + 1,
    // The results of all tool calls are one message of references, written together with the calls.
    length: ordinal + (toolCalls > 0 ? 2 : 1),
    modelCall: null,
    calls: [],
    ...carriedAfter(state, [event]),
    ...answeredTo(state, event),
    ...(state.replay && { replay: afterAnswer(state.replay, event.payload.recorded ?? false) }),
  };
}

function changeCall(state: RunState, event: RunEvent): Partial<RunState> {
  const tool = event as Extract<RunEvent, { type: `tool.${string}` }>;
  if (tool.type === 'tool.requested') {
    return { calls: [...state.calls, newCall(tool)] };
  }
  const calls = state.calls.map((call) => (call.id === tool.payload.tool_call_id ? foldCall(call, tool) : call));
  const call = state.calls.find((item) => item.id === tool.payload.tool_call_id);
  const isDriven = call?.mode === 'pure' || call?.mode === 'inline';
  const drivenMs = isDriven && 'latency_ms' in tool.payload ? (tool.payload.latency_ms ?? 0) : 0;
  const used = tool.type === 'tool.succeeded' ? tool.payload.signal_id : undefined;
  const signals = used === undefined ? state.signals : state.signals.filter((signal) => signal.id !== used);
  const taint = taintOfAnswer(state.turn, call, tool);
  const unread = tool.type === 'tool.resolved' ? unreadAfter(state, tool) : {};
  return {
    calls,
    signals,
    ...unread,
    ...onTurn(state, { ...taint, drivenMs: (state.turn?.drivenMs ?? 0) + drivenMs }),
  };
}
