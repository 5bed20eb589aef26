/** How events change a pending model call: failed models, and waits for providers. */
import type { RunEvent } from './events.ts';

export interface ModelCallState {
  step: number;
  toolChoice: 'auto' | 'none';
  /** Models that have failed for good, and retries of the current one. */
  failures: number;
  retries: number;
  /** The announced model, and the estimated tokens of its prompt. */
  asked?: { model: string; estimated: number };
  deferred?: Deferral | undefined;
}

/** The code of a call whose turn was ended from outside. Its event follows the end, and says nothing of later calls. */
export const INTERRUPTED = 'interrupted';

/** Start of a run's wait for its provider; `alone`: other runs got answers, and this one asks on its own. */
export interface Deferral {
  since: string;
  alone: boolean;
}

/** The part of a run's state concerned. */
interface Troubled {
  modelCall: ModelCallState | null;
  /** Set if the run waits before its next model call is announced. */
  deferred?: Deferral | undefined;
}

/** How an event changes it; undefined if it does not. */
export function modelTrouble(
  state: Troubled & { turn: { id: string } | null },
  event: RunEvent,
): Partial<Troubled> | undefined {
  // The call of a turn that was ended meanwhile is told of after that, and is none of the next turn's.
  const isLate = event.turn_id !== undefined && event.turn_id !== state.turn?.id;
  const modelCall = isLate ? null : state.modelCall;
  switch (event.type) {
    case 'model.failed':
      if (event.payload.tool !== undefined) return {};
      return onModelCall(modelCall, { failures: (modelCall?.failures ?? 0) + 1, retries: 0 });
    case 'model.retried':
      return onModelCall(modelCall, { retries: (modelCall?.retries ?? 0) + 1 });
    case 'model.deferred': {
      const { since, alone = false } = event.payload;
      const deferred = { since, alone };
      return modelCall ? onModelCall(modelCall, { failures: 0, retries: 0, deferred }) : { deferred };
    }
    case 'model.resumed':
      return noLongerDeferred(state);
    default:
      return undefined;
  }
}

/** Ends the wait, as it is over or its turn is. */
export function noLongerDeferred({ deferred }: Troubled): Partial<Troubled> {
  return deferred ? { deferred: undefined } : {};
}

function onModelCall(modelCall: ModelCallState | null, change: Partial<ModelCallState>): Partial<Troubled> {
  return modelCall ? { modelCall: { ...modelCall, ...change } } : {};
}
