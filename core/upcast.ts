/**
 * From older versions of the events to the current one. A log is never rewritten: what was written by an earlier build
 * is brought up to date when it is read. test/fixtures/logs has a log of every past version, which a test folds.
 */

/** What of a stored event a version may change. */
export interface StoredEvent {
  type: string;
  payload: unknown;
}

/** Makes an event of one version one of the next. Pure; total over all events of its version. */
export type Upcast = (event: StoredEvent) => StoredEvent;

/** The first makes events of version 1 events of version 2, and so on. Add one, and a fixture, with every change. */
const UPCASTS: readonly Upcast[] = [callModePure];

/** The version that this build writes, of all payloads together. */
export const SCHEMA_VERSION = UPCASTS.length + 1;

/** Version 1 called the mode of calls without effect that finish within their step `cheap`. */
function callModePure(event: StoredEvent): StoredEvent {
  const { type, payload } = event;
  if (type !== 'tool.requested' || (payload as { mode?: unknown }).mode !== 'cheap') return event;
  return { type, payload: { ...(payload as object), mode: 'pure' } };
}

/** The state of a checkpoint, whatever build wrote it, as this one reads it. Only what has passed its hash comes here. */
export function upcastState<S extends { calls: readonly { mode: string }[] }>(state: S): S {
  if (!state.calls.some(({ mode }) => mode === 'cheap')) return state;
  return { ...state, calls: state.calls.map((call) => (call.mode === 'cheap' ? { ...call, mode: 'pure' } : call)) };
}

/** An event of `version` as one of the version after the last of `upcasts`. */
export function upcast(event: StoredEvent, version: number, upcasts: readonly Upcast[] = UPCASTS): StoredEvent {
  return upcasts.slice(version - 1).reduce((older, step) => step(older), event);
}
