/**
 * Converts payloads of older versions to the current one. A log is never rewritten; old events are converted when read.
 * test/fixtures/logs has events of every past version, which a test folds.
 */

/** Converts a payload to the next version. Pure; total over all payloads of its version. */
export type Upcast = (payload: unknown) => unknown;

/** By type and source version. Versions that only widen the values of the previous one need none. */
type Upcasts = Readonly<Record<string, Readonly<Record<number, Upcast>>>>;

export const UPCASTS: Upcasts = { 'tool.requested': { 1: callModePure } };

/** Converts a payload of one version to another. */
export function upcast(of: { type: string; from: number; to: number }, payload: unknown, upcasts = UPCASTS): unknown {
  const steps = Object.hasOwn(upcasts, of.type) ? upcasts[of.type] : undefined;
  let current = payload;
  for (let version = of.from; version < of.to; version++) {
    const step = steps?.[version];
    if (step) current = step(current);
  }
  return current;
}

/** Converts a checkpoint's state, written by any build. Its hash must have been verified. */
export function upcastState<S extends { calls: readonly { mode: string }[] }>(state: S): S {
  return state.calls.some(({ mode }) => mode === 'cheap') ? { ...state, calls: state.calls.map(callModePure) } : state;
}

/** Version 1 used `cheap` for the mode of effectless calls that finish within their step. */
function callModePure(call: unknown): unknown {
  const { mode } = call as { mode?: unknown };
  return mode === 'cheap' ? { ...(call as object), mode: 'pure' } : call;
}
