/** The part of a run's state that says how it relates to the run it was forked from. */
import type { RunEvent } from './events.ts';
import type { GraphState } from './graph/position.ts';
import type { KeptSignal } from './waits.ts';

/** How a run that was forked from another relates to its record. */
export interface ReplayState {
  fromRunId: string;
  mode: 'live' | 'recorded';
  rerunEffects: boolean;
  /** Model calls before the point, as the original and as this run count them. */
  steps: number;
  iteration: number;
  /** The step to do again from the record, until it is done. */
  redo: { runId: string; step: number; settled: string[] } | null;
  /** A recorded replay has met a request that is not in the record. */
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

/** What `run.forked` means for the state of the new run. */
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

/** An answer ends a step: the next one is compared with the record only where this one was taken from it. */
export function afterAnswer(replay: ReplayState, recorded: boolean): ReplayState {
  return { ...replay, redo: null, diverged: replay.diverged || (replay.mode === 'recorded' && !recorded) };
}
