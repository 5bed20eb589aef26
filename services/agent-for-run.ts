/** The agent that a new run is of: which version, and whether the caller may start it so. */
import type { AgentDefinition } from '../core/definition.ts';
import { conflict, forbidden, impossible, notFound } from '../core/errors.ts';
import { findAgent, loadAgentVersion } from '../db/agents.ts';
import type { Tx } from '../db/database.ts';

/**
 * The version that is wanted, or the current one. Throws 404 for an agent of another workspace, 409 for a deprecated
 * one, 422 for a version that there is not.
 */
export async function agentForRun(
  tx: Tx,
  wanted: { agentId: string; workspaceId: string; version: string | undefined },
): Promise<{ version: string; definition: AgentDefinition }> {
  const agent = await findAgent(tx, wanted.agentId, wanted.workspaceId);
  if (!agent) throw notFound('The agent');
  if (agent.status === 'deprecated') throw conflict('The agent is deprecated; it takes no new runs.');
  const { version } = wanted;
  if (version === undefined || version === agent.current_version)
    return { version: agent.current_version, definition: agent.definition };
  const definition = await loadAgentVersion(tx, agent.id, version);
  if (!definition) {
    const message = `The agent has no version ${version}.`;
    throw impossible(message, [{ path: 'body.config.agent_version', message }]);
  }
  return { version, definition };
}

/** Throws 403 where a run would do more by itself than its agent may, and the caller must not allow that. */
export function checkAutonomy(level: number | undefined, definition: AgentDefinition, mayRaise: boolean): void {
  if ((level ?? 0) > (definition.autonomy_level ?? 2) && !mayRaise) {
    throw forbidden("Raising the autonomy level above the agent's needs the scope approvals:write.");
  }
}
