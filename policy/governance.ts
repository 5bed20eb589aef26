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
  /** The brake: whether the tenant is suspended, and ids of agents and tools that are. */
  suspended: { tenant: boolean; agents: ReadonlySet<string>; tools: ReadonlySet<string> };
}

/** As the database has it. */
export interface StoredGovernance {
  version: number;
  tenant: Governance['tenant'];
  policies: { id: string; version: number; definition: PolicyDefinition }[];
  deleted_tools: string[];
  suspended: { tenant: boolean; agents: string[]; tools: string[] };
}

/** Compiles what is stored. */
export function toGovernance(stored: StoredGovernance): Governance {
  return {
    version: stored.version,
    tenant: stored.tenant,
    rules: compileRules(stored.policies),
    deletedTools: new Set(stored.deleted_tools),
    suspended: {
      tenant: stored.suspended.tenant,
      agents: new Set(stored.suspended.agents),
      tools: new Set(stored.suspended.tools),
    },
  };
}

/** What keeps an agent's runs from going on; undefined where nothing does. */
export function suspendedBy({ suspended }: Governance, agentId: string): 'tenant' | 'agent' | undefined {
  if (suspended.tenant) return 'tenant';
  return suspended.agents.has(agentId) ? 'agent' : undefined;
}

/** What a model is told of a call of a suspended tool; undefined where the tool is not. */
export function toolSuspension({ suspended }: Governance, tool: { id: string; name: string }) {
  if (!suspended.tools.has(tool.id)) return undefined;
  return { code: 'tool_suspended', message: `The tool "${tool.name}" is suspended; the call was not made.` };
}
