/** The part of a run's state about the run that it was forked from. */
import type { RunEvent } from './events.ts';
import type { GraphState } from './graph/position.ts';
import type { KeptSignal } from './waits.ts';

/** Relation of a forked run to its record. */
export interface ReplayState {
  fromRunId: string;
  mode: 'live' | 'recorded';
  rerunEffects: boolean;
  /** Model calls before the point, as counted by the original and by this run. */
  steps: number;
  iteration: number;
  /** The step to redo from the record; null once that is done. */
  redo: { runId: string; step: number; settled: string[] } | null;
  /** A recorded replay made a request that is not in the record. */
  diverged: boolean;
}

interface ForkedState {
  turnCount: number;
  steps: number;
  custom: Record<string, unknown>;
  signals: KeptSignal[];
  replay: ReplayState;
  graph?: GraphState;
}

/** The initial state of a forked run. */
export function forked({ payload }: Extract<RunEvent, { type: 'run.forked' }>): ForkedState {
  return {
    turnCount: payload.turn_count,
    steps: payload.iteration,
    custom: payload.custom,
    signals: payload.signals,
    ...(payload.graph && { graph: payload.graph }),
    replay: {
      fromRunId: payload.from_run_id,
      mode: payload.mode,
      rerunEffects: payload.rerun_effects,
      steps: payload.steps,
      iteration: payload.iteration,
      redo: payload.redo && { runId: payload.redo.run_id, step: payload.redo.step, settled: payload.redo.settled },
      diverged: false,
    },
  };
}

/** After an answer: the next step is compared with the record only if this answer was taken from it. */
export function afterAnswer(replay: ReplayState, recorded: boolean): ReplayState {
  return { ...replay, redo: null, diverged: replay.diverged || (replay.mode === 'recorded' && !recorded) };
}
