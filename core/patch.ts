/** Changes of some fields of a record: null takes a field away, so that it has its default again; what is absent stays. */
export type Patch<T> = { [Field in keyof T]?: T[Field] | null | undefined };

/** The record with its patch. A field without a default must not be patched with null. */
export function withPatch<T extends object>(current: T, patch: Patch<T>): T {
  const given = Object.entries({ ...current, ...patch }).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(given) as T;
}
