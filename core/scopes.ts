/** What a key may do (docs/api.md). `admin` implies all the others. */
export const SCOPES = [
  'runs:write',
  'runs:read',
  'agents:write',
  'agents:read',
  'tools:write',
  'tools:read',
  'tools:execute',
  'memory:write',
  'memory:read',
  'approvals:write',
  'admin',
] as const;
export type Scope = (typeof SCOPES)[number];

/** Whether these scopes are enough for `scope`. */
export function hasScope(scopes: readonly Scope[], scope: Scope): boolean {
  return scopes.includes('admin') || scopes.includes(scope);
}
