/** What an agent says of itself to other agents (A2A 1.0, section 4.4). */
import { A2A_PROTOCOL_VERSION, AgentCard } from '@a2a-js/sdk';
import type { AgentDefinition } from '../../core/definition.ts';
import type { AgentRow } from '../../modules/agents/read-agents.ts';

type Capability = NonNullable<AgentDefinition['capabilities']>[number];

/** `url` is where its JSON-RPC is. */
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
    skills: [{ id: 'run', name, description, tags: ['agent'] }, ...(definition.capabilities ?? []).map(skillOf)],
  });
}

/** What it says of itself that it can do (A2A 1.0, section 4.4.5). */
function skillOf({ skill_name: name, domain }: Capability) {
  const about = domain === undefined ? name : `${name} (${domain})`;
  return { id: name, name, description: about, tags: domain === undefined ? [name] : [name, domain] };
}
