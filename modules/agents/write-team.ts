/** Makes, changes and deletes teams. Their members are agents of the same workspace. */
import type { Caller } from '../../core/caller.ts';
import { impossible, notFound } from '../../core/errors.ts';
import { digestOf } from '../../core/ids.ts';
import { listWorkspaceAgents } from '../../db/agents.ts';
import type { Tx } from '../../db/database.ts';
import { insertSpace, type NewSpaceRow } from '../../db/memory-spaces.ts';
import {
  deleteTeam,
  findTeam,
  insertTeam,
  lockTeam,
  updateTeam,
  type TeamFields,
  type TeamRow,
} from '../../db/teams.ts';
import { newId } from '../../lib/new-id.ts';
import { recordAudit } from '../audit/record-audit.ts';

/** Makes a team with a memory space of its own. Throws 422 for an unknown agent, or one named twice. */
export async function createTeam(tx: Tx, caller: Caller, team: TeamFields): Promise<TeamRow> {
  await checkAgents(tx, caller, team);
  const id = newId();
  await insertTeam(tx, { id, ...ownerOf(caller) }, team);
  await insertSpace(tx, teamSpace(id, caller, team));
  await recordAudit(tx, caller, { action: 'team.created', target: ['team', id], ...subjectOf(team) });
  return requireTeam(tx, caller, id);
}

/**
 * Replaces the given fields. Throws as `createTeam`, and 404. Present members are not checked again unless in the
 * patch: one deprecated since does not prevent renaming the team.
 */
export async function changeTeam(
  tx: Tx,
  caller: Caller,
  { id, patch }: { id: string; patch: Partial<TeamFields> },
): Promise<TeamRow> {
  const now = ofWorkspace(await lockTeam(tx, id), caller);
  const { name, orchestration_pattern, supervisor_agent_id, config, members } = { ...now, ...patch };
  const team = { name, orchestration_pattern, supervisor_agent_id, config, members };
  await checkAgents(tx, caller, patch);
  await updateTeam(tx, { id, ...ownerOf(caller) }, team);
  await recordAudit(tx, caller, { action: 'team.changed', target: ['team', id], ...subjectOf(team) });
  return requireTeam(tx, caller, id);
}

/** Deletes a team. Throws 404. */
export async function removeTeam(tx: Tx, caller: Caller, id: string): Promise<void> {
  if (!(await deleteTeam(tx, id, caller.workspaceId))) throw notFound('The team');
  await recordAudit(tx, caller, { action: 'team.deleted', target: ['team', id] });
}

/** A team of the caller's workspace. Throws 404. */
export async function requireTeam(tx: Tx, caller: Pick<Caller, 'workspaceId'>, id: string): Promise<TeamRow> {
  return ofWorkspace(await findTeam(tx, id), caller);
}

function ofWorkspace(team: TeamRow | undefined, { workspaceId }: Pick<Caller, 'workspaceId'>): TeamRow {
  if (team?.workspace_id !== workspaceId) throw notFound('The team');
  return team;
}

/** What an audit row says of a team: who is in it, and a digest of all that it is. */
function subjectOf({ name, orchestration_pattern, supervisor_agent_id, config, members }: TeamFields) {
  const digest = digestOf({ name, orchestration_pattern, supervisor_agent_id, config, members });
  return { digest, details: { name, supervisor_agent_id, members: members.map(({ agent_id }) => agent_id) } };
}

/** The memory space shared by a team's members. */
function teamSpace(teamId: string, { tenantId, workspaceId }: Caller, { name }: TeamFields): NewSpaceRow {
  return {
    id: newId(),
    tenant_id: tenantId,
    workspace_id: workspaceId,
    name,
    team_id: teamId,
    workflow_id: null,
    scope: 'team',
    allowed_agents: [],
    denied_agents: [],
    max_fragments: null,
    retention_policy: null,
    conflict_check: 'off',
    is_of_team: true,
  };
}

function ownerOf({ tenantId, workspaceId }: Caller) {
  return { tenantId, workspaceId };
}

async function checkAgents(
  tx: Tx,
  caller: Caller,
  { members = [], supervisor_agent_id = null }: Partial<Pick<TeamFields, 'members' | 'supervisor_agent_id'>>,
): Promise<void> {
  const named = [...members.map(({ agent_id }) => agent_id), ...(supervisor_agent_id ? [supervisor_agent_id] : [])];
  const known = await listWorkspaceAgents(tx, caller.workspaceId, named);
  const seen = new Set<string>();
  for (const [index, { agent_id }] of members.entries()) {
    const message = seen.has(agent_id) ? 'is there twice' : known.includes(agent_id) ? undefined : 'names no agent';
    const path = `body.members.${index}.agent_id`;
    if (message) throw impossible(`${path} ${message}.`, [{ path, message }]);
    seen.add(agent_id);
  }
  if (supervisor_agent_id === null || known.includes(supervisor_agent_id)) return;
  const [path, message] = ['body.supervisor_agent_id', 'names no agent'];
  throw impossible(`${path} ${message}.`, [{ path, message }]);
}
