/** What a tenant has decided about its tools at present, whatever versions a run has pinned. */
import { digestOf } from '../../core/ids.ts';
import type { PolicyDefinition } from '../../core/policy.ts';
import type { ToolDefinition, ToolTransport } from '../../core/tool.ts';
import { identityOf } from '../../tools/transports.ts';
import { compileRules, type Rule } from './rules.ts';

export interface Governance {
  /** Raised by every change of what is in here: a commit that was gated under another epoch is refused. */
  epoch: number;
  tenant: { id: string; name: string; plan_tier: string };
  rules: readonly Rule[];
  /** Ids of tools that were taken out of the registry: runs that pin them may not call them any more. */
  deletedTools: ReadonlySet<string>;
  /** Suspension: whether the tenant is suspended, ids of agents and tools that are, and digests of addresses of servers. */
  suspended: {
    tenant: boolean;
    agents: ReadonlySet<string>;
    tools: ReadonlySet<string>;
    servers: ReadonlySet<string>;
  };
}

/** As the database has it. */
interface StoredGovernance {
  epoch: number;
  tenant: Governance['tenant'];
  policies: { id: string; version: number; definition: PolicyDefinition }[];
  deleted_tools: string[];
  suspended: { tenant: boolean; agents: string[]; tools: string[]; servers: string[] };
}

/** Compiles what is stored. */
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

/** What keeps an agent's runs from going on; undefined if nothing does. */
export function suspendedBy({ suspended }: Governance, agentId: string): 'tenant' | 'agent' | undefined {
  if (suspended.tenant) return 'tenant';
  return suspended.agents.has(agentId) ? 'agent' : undefined;
}

/** What a model is told of a call of a suspended tool, or of one at a suspended server; undefined if neither is. */
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

/** Whether the server that a tool is at is suspended, whatever the credentials that it would be asked with. */
function isServerSuspended({ suspended }: Pick<Governance, 'suspended'>, transport: ToolTransport): boolean {
  const identity = suspended.servers.size > 0 ? identityOf(transport) : undefined;
  return identity !== undefined && suspended.servers.has(digestOf(identity));
}
