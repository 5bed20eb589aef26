/** Teams and their members. */
import type { Tx } from './database.ts';
import { fetchSizedPage, type Page } from './page-bytes.ts';
import { selectFrom } from './query-builder.ts';

export const PATTERNS = ['hierarchical', 'parallel', 'sequential'] as const;
type Pattern = (typeof PATTERNS)[number];

interface TeamMember {
  agent_id: string;
  role: string;
  /** Order in sequential teams, lowest first. */
  priority: number;
}

export interface TeamRow {
  id: string;
  workspace_id: string;
  name: string;
  orchestration_pattern: Pattern;
  supervisor_agent_id: string | null;
  config: Record<string, unknown>;
  /** By priority, then by id. */
  members: TeamMember[];
  created_at: Date;
  updated_at: Date;
}

const COLUMNS = `t.id, t.workspace_id, t.name, t.orchestration_pattern, t.supervisor_agent_id, t.config, t.created_at, t.updated_at,
  coalesce((select jsonb_agg(jsonb_build_object('agent_id', m.agent_id, 'role', m.role, 'priority', m.priority)
    order by m.priority, m.agent_id) from team_members m where m.team_id = t.id), '[]') as members`;

export type TeamFields = Pick<TeamRow, 'name' | 'orchestration_pattern' | 'supervisor_agent_id' | 'config' | 'members'>;

export async function insertTeam(
  tx: Tx,
  owner: { id: string; tenantId: string; workspaceId: string },
  team: TeamFields,
): Promise<void> {
  await tx.query(
    `insert into teams (id, tenant_id, workspace_id, name, orchestration_pattern, supervisor_agent_id, config)
     values ($1, $2, $3, $4, $5, $6, $7::jsonb)`,
    [
      owner.id,
      owner.tenantId,
      owner.workspaceId,
      team.name,
      team.orchestration_pattern,
      team.supervisor_agent_id,
      JSON.stringify(team.config),
    ],
  );
  await replaceMembers(tx, owner, team.members);
}

/** Replaces a team's definition; false if it does not exist. */
export async function updateTeam(
  tx: Tx,
  owner: { id: string; tenantId: string; workspaceId: string },
  team: TeamFields,
): Promise<boolean> {
  const rows = await tx.query(
    `update teams set name = $3, orchestration_pattern = $4, supervisor_agent_id = $5, config = $6::jsonb, updated_at = now()
     where id = $1 and workspace_id = $2 returning id`,
    [
      owner.id,
      owner.workspaceId,
      team.name,
      team.orchestration_pattern,
      team.supervisor_agent_id,
      JSON.stringify(team.config),
    ],
  );
  if (rows.length === 0) return false;
  await replaceMembers(tx, owner, team.members);
  return true;
}

async function replaceMembers(
  tx: Tx,
  { id, tenantId }: { id: string; tenantId: string },
  members: readonly TeamMember[],
): Promise<void> {
  await tx.query('delete from team_members where team_id = $1', [id]);
  await tx.query(
    `insert into team_members (team_id, tenant_id, agent_id, role, priority)
     select $1, $2, agent_id, role, priority from jsonb_to_recordset($3::jsonb) as m (agent_id uuid, role text, priority integer)`,
    [id, tenantId, JSON.stringify(members)],
  );
}

/** Deletes a team; false if it does not exist. */
export async function deleteTeam(tx: Tx, id: string, workspaceId: string): Promise<boolean> {
  const rows = await tx.query('delete from teams where id = $1 and workspace_id = $2 returning id', [id, workspaceId]);
  return rows.length > 0;
}

export async function findTeam(tx: Tx, id: string): Promise<TeamRow | undefined> {
  const [row] = await tx.query<TeamRow>(`select ${COLUMNS} from teams t where t.id = $1`, [id]);
  return row;
}

/** The team, locked until the transaction ends. */
export async function lockTeam(tx: Tx, id: string): Promise<TeamRow | undefined> {
  await tx.query('select from teams where id = $1 for update', [id]);
  return findTeam(tx, id);
}

/** Ids of a team's members; empty if it does not exist. */
export async function memberIds(tx: Tx, id: string): Promise<string[]> {
  const rows = await tx.query<{ agent_id: string }>('select agent_id from team_members where team_id = $1', [id]);
  return rows.map(({ agent_id }) => agent_id);
}

/** A page of a workspace's teams, newest first. */
export async function listTeams(
  tx: Tx,
  page: { workspaceId: string; before?: string | undefined; limit: number },
): Promise<Page<TeamRow>> {
  const query = selectFrom(`${COLUMNS}, json_bytes(t.config) as bytes`, 'teams t', [
    ['t.workspace_id', '=', page.workspaceId],
    ['t.id', '<', page.before],
  ]);
  return fetchSizedPage<TeamRow>(tx, query, { order: 'id desc', limit: page.limit });
}
