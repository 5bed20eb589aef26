/** Spaces of memory that agents share. */
import type { ConflictCheck } from '../core/memory/entry.ts';
import { isUuid } from '../lib/is-uuid.ts';
import type { Tx } from './database.ts';
import { fetchRows, selectFrom } from './query-builder.ts';

export type Visibility = 'private' | 'team' | 'workflow' | 'global';

export interface SpaceRow {
  id: string;
  workspace_id: string;
  name: string | null;
  team_id: string | null;
  workflow_id: string | null;
  scope: Visibility;
  allowed_agents: string[];
  denied_agents: string[];
  max_fragments: number | null;
  retention_policy: string | null;
  /** Whether new fragments are compared with existing ones. */
  conflict_check: ConflictCheck;
  /** Its `team_id` named a team of the workspace when it was created: members recall its content automatically. */
  is_of_team: boolean;
  created_at: Date;
}

const SPACE_COLUMNS =
  'id, workspace_id, name, team_id, workflow_id, scope, allowed_agents, denied_agents, max_fragments, retention_policy, conflict_check, is_of_team, created_at';

/** A space that is to be made. */
export type NewSpaceRow = Omit<SpaceRow, 'created_at'> & { tenant_id: string };

/** Makes a space. */
export async function insertSpace(tx: Tx, space: NewSpaceRow): Promise<void> {
  await tx.query(
    `insert into memory_spaces (id, tenant_id, workspace_id, name, team_id, workflow_id, scope, allowed_agents, denied_agents,
        max_fragments, retention_policy, conflict_check, is_of_team)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
    [
      space.id,
      space.tenant_id,
      space.workspace_id,
      space.name,
      space.team_id,
      space.workflow_id,
      space.scope,
      space.allowed_agents,
      space.denied_agents,
      space.max_fragments,
      space.retention_policy,
      space.conflict_check,
      space.is_of_team,
    ],
  );
}

/** A space of the workspace; undefined if there is none. */
export async function findSpace(tx: Tx, of: { id: string; workspaceId: string }): Promise<SpaceRow | undefined> {
  const [row] = await tx.query<SpaceRow>(
    `select ${SPACE_COLUMNS} from memory_spaces where id = $1 and workspace_id = $2`,
    [of.id, of.workspaceId],
  );
  return row;
}

/** A space of any workspace, for Drover's own use. */
export async function readSpace(tx: Tx, id: string): Promise<SpaceRow | undefined> {
  const [row] = await tx.query<SpaceRow>(`select ${SPACE_COLUMNS} from memory_spaces where id = $1`, [id]);
  return row;
}

/** A page of a workspace's spaces, newest first. */
export async function listSpaces(
  tx: Tx,
  page: { workspaceId: string; before?: string | undefined; limit: number },
): Promise<SpaceRow[]> {
  const query = selectFrom(SPACE_COLUMNS, 'memory_spaces', [
    ['workspace_id', '=', page.workspaceId],
    ['id', '<', page.before],
  ]);
  return fetchRows<SpaceRow>(tx, query.orderBy('id', 'desc').limit(page.limit));
}

/** The spaces of a workspace that a search covers: the newest, up to `limit`. */
export async function listSearchedSpaces(tx: Tx, of: { workspaceId: string; limit: number }): Promise<SpaceRow[]> {
  return tx.query<SpaceRow>(
    `select ${SPACE_COLUMNS} from memory_spaces where workspace_id = $1 order by id desc limit $2`,
    [of.workspaceId, of.limit],
  );
}

/** The spaces of a workspace that have one of these fragments. */
export async function listSpacesWith(
  tx: Tx,
  of: { workspaceId: string; fragmentIds: readonly string[] },
): Promise<SpaceRow[]> {
  return tx.query<SpaceRow>(
    `select ${SPACE_COLUMNS} from memory_spaces where workspace_id = $1
       and id in (select space_id from memory_fragments where id = any($2::uuid[]))`,
    [of.workspaceId, of.fragmentIds],
  );
}

/** Teams with an agent as member or supervisor. Names that are not an agent's id belong to none. */
export async function listTeamsOf(tx: Tx, agentId: string): Promise<string[]> {
  if (!isUuid(agentId)) return [];
  const rows = await tx.query<{ id: string }>(
    `select team_id as id from team_members where agent_id = $1
     union select id from teams where supervisor_agent_id = $1`,
    [agentId],
  );
  return rows.map(({ id }) => id);
}

/** Locks a limited space against additions until the transaction ends; returns whether it has so many fragments in force. */
export async function lockSpace(tx: Tx, { id, most }: { id: string; most: number }): Promise<boolean> {
  const [space] = await tx.query<{ count: number | null }>(
    'select fragment_count as count from memory_spaces where id = $1 for update',
    [id],
  );
  if ((space?.count ?? (await countOnce(tx, id))) < most) return false;
  // Expired ones are among them until they are swept.
  const [row] = await tx.query<{ size: number }>(
    `select count(*)::int as size from (select from memory_fragments
       where space_id = $1 and (expires_at is null or expires_at > now()) limit $2) counted`,
    [id, most],
  );
  return (row?.size ?? 0) >= most;
}

/** Counts the fragments of a locked space; from then on their count is kept with each that is added or removed. */
async function countOnce(tx: Tx, id: string): Promise<number> {
  const [space] = await tx.query<{ count: number }>(
    `update memory_spaces set fragment_count = (select count(*) from memory_fragments where space_id = $1) where id = $1
       returning fragment_count as count`,
    [id],
  );
  return space?.count ?? 0;
}
