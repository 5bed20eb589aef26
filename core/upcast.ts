/**
 * From older versions of an event's payload to the current one. A log is never rewritten: what an earlier build has
 * written is brought up to date when it is read. test/fixtures/logs has events of every past version, which a test folds.
 */

/** Makes a payload of one version one of the next. Pure; total over all payloads of its version. */
export type Upcast = (payload: unknown) => unknown;

/** By type, and by the version that they start from. A version that has only widened the values of the one before needs none. */
type Upcasts = Readonly<Record<string, Readonly<Record<number, Upcast>>>>;

export const UPCASTS: Upcasts = { 'tool.requested': { 1: callModePure } };

/** A payload of version `from` of its type as one of version `to`. */
export function upcast(of: { type: string; from: number; to: number }, payload: unknown, upcasts = UPCASTS): unknown {
  const steps = Object.hasOwn(upcasts, of.type) ? upcasts[of.type] : undefined;
  let current = payload;
  for (let version = of.from; version < of.to; version++) {
    const step = steps?.[version];
    if (step) current = step(current);
  }
  return current;
}

/** The state of a checkpoint, whatever build wrote it, as this one reads it. Only what has passed its hash comes here. */
export function upcastState<S extends { calls: readonly { mode: string }[] }>(state: S): S {
  return state.calls.some(({ mode }) => mode === 'cheap') ? { ...state, calls: state.calls.map(callModePure) } : state;
}

/** The first version called the mode of calls without effect that finish within their step `cheap`. */
function callModePure(call: unknown): unknown {
  const { mode } = call as { mode?: unknown };
  return mode === 'cheap' ? { ...(call as object), mode: 'pure' } : call;
}
