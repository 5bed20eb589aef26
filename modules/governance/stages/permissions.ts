import type { GatedCall, StageVerdict } from './stage.ts';

/** Denies a call unless the agent has every permission that the tool requires. */
export function judgePermissions({
  definition,
  tool,
}: Pick<GatedCall, 'definition' | 'tool'>): StageVerdict | undefined {
  const granted = new Set(definition.permissions ?? []);
  const missing = tool.permissions.find((permission) => permission.required && !granted.has(permission.name));
  if (!missing) return undefined;
  const message = `Permission denied: the agent lacks "${missing.name}".`;
  return { kind: 'deny', code: 'permission_denied', message };
}
