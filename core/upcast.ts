/**
 * From older versions of an event's payload to the current one. A log is never rewritten: what an earlier build has
 * written is brought up to date when it is read. test/fixtures/logs has events of every past version, which a test folds.
 */

/** Makes a payload of one version one of the next. Pure; total over all payloads of its version. */
export type Upcast = (payload: unknown) => unknown;

/**
 * By type: the first makes payloads of version 1 payloads of version 2, and so on. Each version of a type but its first
 * has one here, and a fixture; where the values have only become more, it is `same`.
 */
export const UPCASTS: Readonly<Record<string, readonly Upcast[]>> = {};

/** The upcast of a version that has widened a payload: what was valid still is, and means the same. */
export const same: Upcast = (payload) => payload;

/** A payload of this version as one of the version after the last of the type's upcasts. */
export function upcast(of: { type: string; version: number }, payload: unknown, upcasts = UPCASTS): unknown {
  const steps = Object.hasOwn(upcasts, of.type) ? upcasts[of.type] : undefined;
  return (steps ?? []).slice(of.version - 1).reduce((older, step) => step(older), payload);
}
