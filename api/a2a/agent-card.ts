/** What an agent says of itself to other agents (A2A 1.0, section 4.4). */
import { A2A_PROTOCOL_VERSION, AgentCard } from '@a2a-js/sdk';
import type { AgentRow } from '../../modules/agents/read-agents.ts';

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
    skills: [{ id: 'run', name, description, tags: ['agent'] }],
  });
}
