/** Policy rules as tenants write them, and the gate's decisions on calls (docs/policies.md). */

export const RULE_DECISIONS = ['allow', 'block', 'rewrite', 'require_approval'] as const;
export type RuleDecision = (typeof RULE_DECISIONS)[number];

/** One immutable version of a rule. Lowest `priority` first; `when` is CEL. */
export interface PolicyDefinition {
  name: string;
  priority: number;
  when: string;
  decision: RuleDecision;
  reason: string;
  /** For `rewrite`: a merge patch (RFC 7396) of the call's arguments. */
  rewrite?: { arguments: Record<string, unknown> } | undefined;
  /** For `require_approval`: the key that requested the turn may not approve. */
  four_eyes?: boolean | undefined;
}

/** A version of a rule. */
export interface PolicyRef {
  id: string;
  name: string;
  version: number;
}

/** Applies a merge patch (RFC 7396): null removes, objects are merged, everything else replaces. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const merged = new Map(Object.entries(isObject(target) ? target : {}));
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) merged.delete(key);
    else merged.set(key, mergePatch(merged.get(key), value));
  }
  // From entries, so that a key named __proto__ is an ordinary key.
  return Object.fromEntries(merged);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
