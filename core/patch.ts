/** Partial update of a record: null resets a field to its default; absent fields stay. */
export type Patch<T> = { [Field in keyof T]?: T[Field] | null | undefined };

/** Applies a patch. A field without a default must not be patched with null. */
export function withPatch<T extends object>(current: T, patch: Patch<T>): T {
  const given = Object.entries({ ...current, ...patch }).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(given) as T;
}
