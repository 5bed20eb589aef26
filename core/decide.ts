/** What a run does next, as a pure function of its state: the default ReAct graph (doc 000, "ReAct Loop"). */
import { isTerminal } from './events.ts';
import { isSettled, type CallState, type RunState } from './state.ts';

/** The settings of an agent that a decision depends on. */
export interface RunLimits {
  /** Steps per turn; at the limit the model is asked once more, without tools. */
  maxSteps: number;
  /** Driving time of a turn, in ms. */
  turnTimeoutMs: number;
}

export type Decision =
  /** Nothing to do until somebody sends something. */
  | { kind: 'rest' }
  | { kind: 'begin_turn' }
  /** `announced`: the log already says that this call is made. `last`: the step limit is reached. */
  | { kind: 'call_model'; step: number; toolChoice: 'auto' | 'none'; announced: boolean; last: boolean }
  /** Calls that the driver makes itself. */
  | { kind: 'run_calls'; calls: CallState[] }
  /** Calls that other workers make; the run waits without a worker. */
  | { kind: 'await_calls'; calls: CallState[] }
  /** Every call it waited for has settled. */
  | { kind: 'resume' }
  | { kind: 'complete_turn'; ordinal: number; stopReason: string }
  | { kind: 'fail_turn'; error: { code: string; message: string } };

/** Decides. Every reachable state that is not terminal has an answer; a property test walks them. */
export function decide(state: RunState, limits: RunLimits): Decision {
  const turn = state.turn;
  if (isTerminal(state.status) || !turn) return { kind: 'rest' };
  if (state.status === 'created' || state.status === 'awaiting_human') return { kind: 'begin_turn' };

  const open = state.calls.filter((call) => !isSettled(call));
  const own = open.filter((call) => call.mode !== 'queued');
  if (turn.drivenMs > limits.turnTimeoutMs && open.length === 0 && !turn.answer) return timedOut(limits);
  if (own.length > 0) return { kind: 'run_calls', calls: own };
  if (open.length > 0) return { kind: 'await_calls', calls: open };
  if (state.status === 'awaiting_tool') return { kind: 'resume' };
  if (turn.answer) {
    const stopReason = turn.maxStepsReached ? 'max_steps' : turn.answer.stopReason;
    return { kind: 'complete_turn', ordinal: turn.answer.ordinal, stopReason };
  }
  return nextModelCall(state, limits);
}

/** The next model call of the turn, made or to be made. */
export function nextModelCall(state: RunState, limits: RunLimits): Extract<Decision, { kind: 'call_model' }> {
  const { modelCall, turn } = state;
  if (modelCall) {
    const { step, toolChoice } = modelCall;
    return { kind: 'call_model', step, toolChoice, announced: true, last: toolChoice === 'none' };
  }
  const last = (turn?.steps ?? 0) >= limits.maxSteps;
  return {
    kind: 'call_model',
    step: state.steps + 1,
    toolChoice: last ? 'none' : 'auto',
    announced: false,
    last,
  };
}

function timedOut(limits: RunLimits): Decision {
  const seconds = limits.turnTimeoutMs / 1000;
  return {
    kind: 'fail_turn',
    error: { code: 'turn_timeout', message: `The turn used up its ${seconds} s of driving time.` },
  };
}
