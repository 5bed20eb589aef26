/** A tenant's governance for tests of the gate: policies from their essentials. */
import type { PolicyDefinition } from '../../core/policy.ts';
import { toGovernance, type Governance } from '../../modules/governance/governance.ts';

type Essentials = Partial<PolicyDefinition> & Pick<PolicyDefinition, 'when' | 'decision'>;

/** Policies in this order get the priorities 0, 10, 20, … where they name none. */
export function governanceOf(
  rules: readonly Essentials[],
  more: { deletedTools?: string[]; suspendedTools?: string[] } = {},
): Governance {
  const policies = rules.map((rule, index) => ({
    id: `policy-${index}`,
    version: 1,
    definition: { name: `rule ${index}`, priority: index * 10, reason: `reason ${index}`, ...rule },
  }));
  return toGovernance({
    epoch: 1,
    tenant: { id: 'tenant-1', name: 'Tenant', plan_tier: 'standard' },
    policies,
    deleted_tools: more.deletedTools ?? [],
    suspended: { tenant: false, agents: [], tools: more.suspendedTools ?? [], servers: [] },
  });
}
