/** What a tenant has decided about its tools, as it stands now and whatever versions a run has pinned. */
import type { PolicyDefinition } from '../core/policy.ts';
import { compileRules, type Rule } from './rules.ts';

export interface Governance {
  /** Raised by every change of what is in here: a commit that was gated by another version is refused. */
  version: number;
  tenant: { id: string; name: string; plan_tier: string };
  rules: readonly Rule[];
  /** Ids of tools that were taken out of the registry: runs that pin them may not call them any more. */
  deletedTools: ReadonlySet<string>;
}

/** As the database has it. */
export interface StoredGovernance {
  version: number;
  tenant: Governance['tenant'];
  policies: { id: string; version: number; definition: PolicyDefinition }[];
  deleted_tools: string[];
}

/** Compiles what is stored. */
export function toGovernance(stored: StoredGovernance): Governance {
  return {
    version: stored.version,
    tenant: stored.tenant,
    rules: compileRules(stored.policies),
    deletedTools: new Set(stored.deleted_tools),
  };
}
