/** An agent's card for other agents (A2A 1.0, section 4.4). */
import { A2A_PROTOCOL_VERSION, AgentCard } from '@a2a-js/sdk';
import type { AgentDefinition } from '../../core/definition.ts';
import type { AgentRow } from '../../modules/agents/read-agents.ts';

type Capability = NonNullable<AgentDefinition['capabilities']>[number];

/** The skill of every agent: to be run. */
const RUN = 'run';

/** `url` is its JSON-RPC endpoint. */
export function agentCard({ name, definition, current_version: version }: AgentRow, url: string): AgentCard {
  const description = definition.description ?? `The agent "${name}".`;
  return AgentCard.fromJSON({
    name,
    description,
    version,
    supportedInterfaces: [{ url, protocolBinding: 'JSONRPC', protocolVersion: A2A_PROTOCOL_VERSION }],
    capabilities: { streaming: true, pushNotifications: true },
    securitySchemes: { key: { httpAuthSecurityScheme: { scheme: 'Bearer' } } },
    securityRequirements: [{ schemes: { key: { list: [] } } }],
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [{ id: RUN, name, description, tags: ['agent'] }, ...skillsOf(definition.capabilities ?? [])],
  });
}

/** Its declared skills (A2A 1.0, section 4.4.5), each once with all its domains. */
function skillsOf(capabilities: readonly Capability[]) {
  const domains = new Map<string, string[]>();
  for (const { skill_name: name, domain } of capabilities) {
    domains.set(name, [...(domains.get(name) ?? []), ...(domain === undefined ? [] : [domain])]);
  }
  domains.delete(RUN);
  return [...domains].map(([name, of]) => {
    const description = of.length === 0 ? name : `${name} (${of.join(', ')})`;
    return { id: name, name, description, tags: [name, ...of] };
  });
}
