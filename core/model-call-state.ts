/** What events mean for a model call on its way to an answer: models that fail, and providers that are waited for. */
import type { RunEvent } from './events.ts';

export interface ModelCallState {
  step: number;
  toolChoice: 'auto' | 'none';
  /** Models that have failed for good, and attempts of the next one so far. */
  failures: number;
  retries: number;
  /** The model that was announced, and the tokens of its prompt, estimated. */
  asked?: { model: string; estimated: number };
  deferred?: Deferral | undefined;
}

/** Since when a run waits for its provider; `alone`: others were answered, and it asks for itself. */
export interface Deferral {
  since: string;
  alone: boolean;
}

/** What of a run's state it is about. */
interface Troubled {
  modelCall: ModelCallState | null;
  /** Where the run waits before its next model call is announced. */
  deferred?: Deferral | undefined;
}

/** What an event means for it; undefined if it means nothing. */
export function modelTrouble(state: Troubled, event: RunEvent): Partial<Troubled> | undefined {
  const { modelCall } = state;
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

/** The wait is over, or the turn that waited. */
export function noLongerDeferred({ deferred }: Troubled): Partial<Troubled> {
  return deferred ? { deferred: undefined } : {};
}

function onModelCall(modelCall: ModelCallState | null, change: Partial<ModelCallState>): Partial<Troubled> {
  return modelCall ? { modelCall: { ...modelCall, ...change } } : {};
}
