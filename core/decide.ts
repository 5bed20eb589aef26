/** The next action of a run, as a pure function of its state: by its agent's graph, otherwise ReAct (think, act, observe). */
import { isTerminal, OUT_OF_BUDGET, type RunStatus } from './events.ts';
import { INVALID_OUTPUT, type Reading } from './output-format.ts';
import { graphStep, type GraphPlan } from './graph/graph-step.ts';
import type { NextNode } from './graph/position.ts';
import { INVALID_INTENTS, invalidAnswers, isLost } from './intents.ts';
import { isSettled, type CallState, type RunState, type TurnState } from './state.ts';
import { isAnswer, type KeptSignal } from './waits.ts';

/** An agent's settings that decisions depend on. */
export interface RunLimits {
  /** Steps per turn; at the limit the model is asked once more, without tools. */
  maxSteps: number;
  /** Limit of a turn's driving time, in ms. */
  turnTimeoutMs: number;
  /** What to do about a call of unknown outcome; absent: tell the model. */
  onUnknown?: 'ask' | 'tell_model' | 'fail' | 'retry' | undefined;
  /** Absent where the agent has none. */
  graph?: GraphPlan | undefined;
  /** A model reviews answers before a turn ends with them. */
  reflect?: boolean | undefined;
}

export type Decision =
  /** Nothing to do until somebody sends something. */
  | { kind: 'dormant' }
  | { kind: 'begin_turn' }
  /** Starts the next turn with the message that waited for the end of the last one. */
  | { kind: 'take_queued' }
  /** `announced`: the log already announces this call. `last`: the step limit is reached. */
  | { kind: 'call_model'; step: number; toolChoice: 'auto' | 'none'; announced: boolean; last: boolean }
  /** Enters a node of the graph; this also requests the node's call, if it makes one. */
  | { kind: 'enter_node'; next: NextNode }
  /** The node has its output: its edges determine what is next. */
  | { kind: 'complete_node' }
  /** Calls for the driver to make. */
  | { kind: 'run_calls'; calls: CallState[] }
  /**
   * Calls for other workers or the client, including those whose jobs must be sent. The run waits without a worker. `asked`:
   * others of the answer, which somebody is to act on meanwhile.
   */
  | { kind: 'await_calls'; calls: CallState[]; asked: CallState[] }
  /** Calls of unknown outcome that a person must be asked about. */
  | { kind: 'ask_about'; calls: CallState[] }
  /** Calls for something outside to answer that have not been announced yet. */
  | { kind: 'open_waits'; calls: CallState[] }
  /** A waiting call whose signal has already come. */
  | { kind: 'use_signal'; call: CallState; signal: KeptSignal }
  /** Only a person, a webhook or time can continue the run. */
  | { kind: 'await_people'; calls: CallState[] }
  /** What the run waited for has come. */
  | { kind: 'resume' }
  /** A model reviews whether the answer does what was asked for. */
  | { kind: 'reflect'; ordinal: number }
  | { kind: 'complete_turn'; ordinal: number; stopReason: string; as?: Reading | undefined }
  | { kind: 'fail_turn'; error: { code: string; message: string } };

/** Statuses in which a turn has not begun. `planning`: a run with a graph has a checkpoint while it plans. */
const BEFORE_TURN: readonly RunStatus[] = ['awaiting_human', 'planning'];

/** Decides. Every reachable state that is not terminal has an answer; a property test walks them. */
export function decide(state: RunState, limits: RunLimits): Decision {
  const turn = state.turn;
  if (isTerminal(state.status)) return { kind: 'dormant' };
  if (!turn) return isNextTaken(state) ? { kind: 'take_queued' } : { kind: 'dormant' };
  if (!turn.begun && BEFORE_TURN.includes(state.status)) return { kind: 'begin_turn' };
  if (state.status === 'created') return { kind: 'begin_turn' };

  const pending = decideOnCalls(state, limits);
  if (pending) return pending;
  if (state.budget.asked) return { kind: 'await_people', calls: [] };
  const isReflecting = state.status === 'reflecting' && turn.answer !== null;
  if (state.status !== 'executing' && !isReflecting) return { kind: 'resume' };
  const unknown = state.calls.filter((call) => call.status === 'unknown' && call.asked !== 'settled');
  if (unknown.length > 0 && limits.onUnknown === 'fail') return outcomeUnknown(unknown);
  if (isLost(state)) return lost(state);
  if (turn.misfit?.last) return misfit(turn.misfit);
  if (turn.outOfBudget) return stopTurn(turn);
  if (turn.drivenMs > limits.turnTimeoutMs && !turn.answer) return timedOut(limits);
  const { graph } = limits;
  const isAnswered = turn.answer && (turn.maxStepsReached || !state.graph?.open);
  if (graph && !isAnswered) return decideInGraph(state, { ...limits, graph });
  if (turn.answer) {
    if (isToReflect(state, limits)) return { kind: 'reflect', ordinal: turn.answer.ordinal };
    const stopReason = turn.maxStepsReached ? 'max_steps' : turn.answer.stopReason;
    return { kind: 'complete_turn', ordinal: turn.answer.ordinal, stopReason, as: turn.answer.as };
  }
  return nextModelCall(state, limits);
}

/** Whether the queued message starts the next turn in this run, not in that of another agent. */
export function isNextTaken({ queued, isHandedOver, status }: RunState): boolean {
  return queued != null && !isHandedOver && status === 'awaiting_human';
}

/** Whether a model reviews the answer before the turn ends: once, if a model gave it, and if steps and time are left to improve it. */
function isToReflect({ turn, graph }: RunState, limits: RunLimits): boolean {
  if (!limits.reflect || !turn?.answer || turn.reflection?.last) return false;
  if (turn.maxStepsReached || turn.answer.stopReason === 'refusal' || turn.drivenMs > limits.turnTimeoutMs)
    return false;
  return !limits.graph || limits.graph.types[graph?.node ?? ''] === 'llm';
}

function decideInGraph(state: RunState, limits: RunLimits & { graph: GraphPlan }): Decision {
  const step = graphStep(state, limits);
  if (step.kind === 'call_model') return nextModelCall(state, limits, step.last);
  if (step.kind !== 'no_node') return step;
  const message = `The agent's graph has no node "${step.node}" to go on with.`;
  return { kind: 'fail_turn', error: { code: 'graph_failed', message } };
}

/** What the calls of the step need next; undefined once each has its result. */
function decideOnCalls(state: RunState, limits: RunLimits): Decision | undefined {
  const { calls, status } = state;
  const unknown = calls.filter((call) => call.status === 'unknown' && call.asked !== 'settled');
  const unasked = limits.onUnknown === 'ask' ? unknown.filter((call) => call.asked === 'no') : [];
  if (unasked.length > 0) return { kind: 'ask_about', calls: unasked };

  const own = calls.filter(isForDriver);
  if (own.length > 0) return status === 'executing' ? { kind: 'run_calls', calls: own } : { kind: 'resume' };
  const unopened = calls.filter((call) => call.mode === 'wait' && call.status === 'pending');
  if (unopened.length > 0) return status === 'executing' ? { kind: 'open_waits', calls: unopened } : { kind: 'resume' };
  const waits = calls.filter((call) => call.mode === 'wait' && call.status === 'running');
  for (const call of waits) {
    const signal = state.signals.find((each) => isAnswer(each, call));
    if (signal) return { kind: 'use_signal', call, signal };
  }
  const queued = calls.filter(
    (call) => call.mode === 'queued' && (call.status === 'pending' || call.status === 'running'),
  );
  const unsent = queued.filter((call) => call.status === 'pending' && !call.sent);
  const inDoubt = limits.onUnknown === 'ask' ? unknown : [];
  const people = [...calls.filter((call) => call.status === 'awaiting_approval'), ...inDoubt, ...waits];
  // Work elsewhere may ask, too.
  const asked = askedMeanwhile([...people, ...queued.filter((call) => call.wait !== null)]);
  if (unsent.length > 0)
    return status === 'executing' ? { kind: 'await_calls', calls: unsent, asked } : { kind: 'resume' };
  // Work in progress elsewhere that reports its own end.
  const isWork = (call: CallState) => call.wait?.type === 'tool_results' || call.wait?.type === 'child';
  if (queued.length > 0 || waits.some(isWork))
    return status === 'awaiting_human' && asked.length === 0
      ? { kind: 'resume' }
      : { kind: 'await_calls', calls: [], asked };
  return people.length > 0 ? { kind: 'await_people', calls: people } : undefined;
}

/** Whether the driver makes the call, and nobody has to approve its next attempt first. */
function isForDriver(call: CallState): boolean {
  return (call.mode === 'pure' || call.mode === 'inline') && !isSettled(call) && call.status !== 'awaiting_approval';
}

/** Of what is left when nothing is at work, what somebody may act on before; a client is first to give the results of its tools. */
function askedMeanwhile(people: readonly CallState[]): CallState[] {
  if (people.some(({ wait }) => wait?.type === 'tool_results')) return [];
  return people.filter(({ wait }) => wait?.type !== 'timer' && wait?.type !== 'child');
}

/**
 * Out of budget: the turn ends with the model's last message, or fails if there is none. Whether the answer at `ordinal`
 * contains text is for the caller to check, who has the conversation.
 */
function stopTurn({ lastOrdinal, answer }: TurnState): Decision {
  const stopReason = OUT_OF_BUDGET;
  if (lastOrdinal !== null) return { kind: 'complete_turn', ordinal: lastOrdinal, stopReason, as: answer?.as };
  return { kind: 'fail_turn', error: NO_BUDGET };
}

/** The error of a turn whose budget ran out before the model said anything. */
export const NO_BUDGET = { code: OUT_OF_BUDGET, message: 'No budget is left for a model call.' };

/** The same, with what the call lacked, if that is known. */
export function noBudgetFor(lack: string | undefined): typeof NO_BUDGET {
  return lack === undefined ? NO_BUDGET : { ...NO_BUDGET, message: `No budget is left for a model call: ${lack}.` };
}

function outcomeUnknown(calls: readonly CallState[]): Decision {
  const names = calls.map((call) => call.name).join(', ');
  const message = `Nobody knows whether the call of ${names} took effect, and the agent's on_unknown is "fail".`;
  return { kind: 'fail_turn', error: { code: 'outcome_unknown', message } };
}

function lost(state: RunState): Decision {
  const { empty } = state.turn?.invalid ?? {};
  if (empty) return { kind: 'fail_turn', error: empty };
  const message = `The last ${invalidAnswers(state)} answers of the model held nothing but calls that are not valid.`;
  return { kind: 'fail_turn', error: { code: INVALID_INTENTS, message } };
}

function misfit({ answers, message }: NonNullable<TurnState['misfit']>): Decision {
  const which = answers === 1 ? "The model's answer does" : `The model's answers (${answers}) do`;
  const error = { code: INVALID_OUTPUT, message: `${which} not fit the schema that is demanded: ${message}` };
  return { kind: 'fail_turn', error };
}

/** The next model call of the turn, announced or not. */
export function nextModelCall(
  state: RunState,
  limits: RunLimits,
  atLimit = false,
): Extract<Decision, { kind: 'call_model' }> {
  const { modelCall, turn } = state;
  if (modelCall) {
    const { step, toolChoice } = modelCall;
    return { kind: 'call_model', step, toolChoice, announced: true, last: toolChoice === 'none' };
  }
  const last = atLimit || (turn?.steps ?? 0) >= limits.maxSteps;
  return {
    kind: 'call_model',
    step: state.steps + 1,
    toolChoice: last ? 'none' : 'auto',
    announced: false,
    last,
  };
}

function timedOut(limits: RunLimits): Decision {
  return { kind: 'fail_turn', error: turnTimeout(limits) };
}

/** The error of a turn that ran out of driving time. */
export function turnTimeout({ turnTimeoutMs }: RunLimits): { code: string; message: string } {
  const seconds = turnTimeoutMs / 1000;
  const message = `The turn used up its ${seconds} s of driving time: execution_config.timeout_seconds of its agent gives it more.`;
  return { code: 'turn_timeout', message };
}
