/** Permissions of keys (docs/api.md). `admin` implies all others. */
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

/** Whether `scopes` include or imply `scope`. */
export function hasScope(scopes: readonly Scope[], scope: Scope): boolean {
  return scopes.includes('admin') || scopes.includes(scope);
}
