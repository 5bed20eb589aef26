/** Who is let into a space. */
import { forbidden } from '../../../core/errors.ts';
import type { Tx } from '../../../db/database.ts';
import { listTeamsOf, type SpaceRow } from '../../../db/memory-spaces.ts';

/** The spaces among some that let an agent in; whoever is no agent is let into all of them. */
export async function accessible(
  tx: Tx,
  spaces: readonly SpaceRow[],
  agentId: string | undefined,
): Promise<SpaceRow[]> {
  if (agentId === undefined) return [...spaces];
  const teams = spaces.some((space) => space.is_of_team) ? await listTeamsOf(tx, agentId) : [];
  return spaces.filter((space) => isIn(space, { agentId, teams }));
}

/** Throws 403 for an agent that a space does not let in. */
export async function requireAccess(tx: Tx, space: SpaceRow, agentId: string | undefined): Promise<void> {
  const [open] = await accessible(tx, [space], agentId);
  if (!open) throw forbidden('This agent is not let into this space.');
}

/** A team's space lets its members in, and whoever it names beside them. */
function isIn(
  { allowed_agents: allowed, denied_agents: denied, is_of_team: isOfTeam, team_id: team }: SpaceRow,
  { agentId, teams }: { agentId: string; teams: readonly string[] },
): boolean {
  if (denied.includes(agentId)) return false;
  if (allowed.includes(agentId)) return true;
  return isOfTeam ? team !== null && teams.includes(team) : allowed.length === 0;
}
