/** Access of agents to spaces. */
import type { Caller } from '../../../core/caller.ts';
import { forbidden, notFound } from '../../../core/errors.ts';
import { listUnknownAgents } from '../../../db/agents.ts';
import type { Tx } from '../../../db/database.ts';
import { listTeamsOf, type SpaceRow } from '../../../db/memory-spaces.ts';
import { isUuid } from '../../../lib/is-uuid.ts';

/** The acting agent, and agents that a request admits or excludes. */
interface NamedAgents {
  agent_id?: string | null | undefined;
  allowed_agents?: readonly string[] | undefined;
  denied_agents?: readonly string[] | undefined;
}

/**
 * Throws 404 for a UUID that is no agent's of the caller's workspace; other names are the client's own. Can run along
 * with other reads.
 */
export async function requireAgents(tx: Tx, { workspaceId }: Caller, named: NamedAgents): Promise<void> {
  const { agent_id: acting, allowed_agents: allowed = [], denied_agents: denied = [] } = named;
  const ids = [...(acting ? [acting] : []), ...allowed, ...denied].filter(isUuid);
  if (ids.length === 0) return;
  const [unknown] = await listUnknownAgents(tx, workspaceId, ids);
  if (unknown !== undefined) throw notFound(`The agent "${unknown}"`);
}

/** The spaces that admit an agent; all of them without one. */
export async function accessible(
  tx: Tx,
  spaces: readonly SpaceRow[],
  agentId: string | undefined,
): Promise<SpaceRow[]> {
  if (agentId === undefined) return [...spaces];
  const teams = spaces.some((space) => space.team_id !== null) ? await listTeamsOf(tx, agentId) : [];
  return spaces.filter((space) => isIn(space, { agentId, teams }));
}

/** Throws 403 for an agent without access to the space. */
export async function requireAccess(tx: Tx, space: SpaceRow, agentId: string | undefined): Promise<void> {
  const [open] = await accessible(tx, [space], agentId);
  if (!open) throw forbidden('This agent is not let into this space.');
}

/** A team's space admits its members and the agents it names; an unknown team has no members. */
function isIn(
  { allowed_agents: allowed, denied_agents: denied, team_id: team }: SpaceRow,
  { agentId, teams }: { agentId: string; teams: readonly string[] },
): boolean {
  if (denied.includes(agentId)) return false;
  if (allowed.includes(agentId)) return true;
  return team === null ? allowed.length === 0 : teams.includes(team);
}
