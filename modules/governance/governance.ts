/** A tenant's current decisions about its tools, whatever versions a run has pinned. */
import { digestOf } from '../../core/ids.ts';
import type { PolicyDefinition } from '../../core/policy.ts';
import type { ToolDefinition, ToolTransport } from '../../core/tool.ts';
import { identityOf } from '../../tools/transports.ts';
import { compileRules, type Rule } from './rules.ts';

export interface Governance {
  /** Raised by every change of these: a commit gated under another epoch is refused. */
  epoch: number;
  tenant: { id: string; name: string; plan_tier: string };
  rules: readonly Rule[];
  /** Ids of deleted tools: runs that pin them may no longer call them. */
  deletedTools: ReadonlySet<string>;
  /** Whether the tenant is suspended, ids of suspended agents and tools, and digests of suspended servers' addresses. */
  suspended: {
    tenant: boolean;
    agents: ReadonlySet<string>;
    tools: ReadonlySet<string>;
    servers: ReadonlySet<string>;
  };
}

/** The stored form. */
interface StoredGovernance {
  epoch: number;
  tenant: Governance['tenant'];
  policies: { id: string; version: number; definition: PolicyDefinition }[];
  deleted_tools: string[];
  suspended: { tenant: boolean; agents: string[]; tools: string[]; servers: string[] };
}

/** Compiles the stored form. */
export function toGovernance(stored: StoredGovernance): Governance {
  return {
    epoch: stored.epoch,
    tenant: stored.tenant,
    rules: compileRules(stored.policies),
    deletedTools: new Set(stored.deleted_tools),
    suspended: {
      tenant: stored.suspended.tenant,
      agents: new Set(stored.suspended.agents),
      tools: new Set(stored.suspended.tools),
      servers: new Set(stored.suspended.servers),
    },
  };
}

/** Which suspension stops an agent's runs; undefined if none does. */
export function suspendedBy({ suspended }: Governance, agentId: string): 'tenant' | 'agent' | undefined {
  if (suspended.tenant) return 'tenant';
  return suspended.agents.has(agentId) ? 'agent' : undefined;
}

/** What the model reads if a tool or its server is suspended; undefined if neither is. */
export function toolSuspension(
  { suspended }: Governance,
  { id, name, transport }: Pick<ToolDefinition, 'id' | 'name' | 'transport'>,
): { code: string; message: string } | undefined {
  if (suspended.tools.has(id)) {
    return { code: 'tool_suspended', message: `The tool "${name}" is suspended; the call was not made.` };
  }
  if (!isServerSuspended({ suspended }, transport)) return undefined;
  return { code: 'server_suspended', message: `The server of "${name}" is suspended; the call was not made.` };
}

/** Whether a tool's server is suspended, for any credentials. */
function isServerSuspended({ suspended }: Pick<Governance, 'suspended'>, transport: ToolTransport): boolean {
  const identity = suspended.servers.size > 0 ? identityOf(transport) : undefined;
  return identity !== undefined && suspended.servers.has(digestOf(identity));
}
