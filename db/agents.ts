import type { AgentStatus } from '../core/agent-lifecycle.ts';
import type { AgentDefinition } from '../core/definition.ts';
import type { Tx } from './database.ts';
import { TOOL_NAME } from './migrations/0061-teams-at-work.ts';
import { noteWantedModel } from './memory-models.ts';
import { filterByMetadata } from './filter-by-metadata.ts';
import { fetchSizedPage, type Page } from './page-bytes.ts';
import { fetchRows, selectFrom } from './query-builder.ts';
import { setAgentSkills } from './skills.ts';

/** An agent with its current definition. */
export interface AgentRow {
  id: string;
  workspace_id: string;
  name: string;
  status: AgentStatus;
  suspended: boolean;
  current_version: string;
  version_created_at: Date;
  definition: AgentDefinition;
  content_hash: string;
  /** The client's own id for it. */
  external_id: string | null;
  created_at: Date;
  updated_at: Date;
}

/** One immutable version of an agent. `ordinal` counts them from 1. */
export interface AgentVersionRow {
  agent_id: string;
  version: string;
  ordinal: number;
  definition: AgentDefinition;
  created_at: Date;
}

interface NewAgentVersion {
  tenantId: string;
  agentId: string;
  version: string;
  definition: AgentDefinition;
  contentHash: string;
}

/** `busy` is not stored: it follows from the agent's current tasks. */
export const AGENT_STATUS = `case when a.status in ('active', 'idle') and exists (
  select from tasks t where t.assigned_agent_id = a.id and t.status in ('assigned', 'in_progress')) then 'busy' else a.status end`;

/**
 * Whether an agent has one of these statuses, which `parameter` stands for. That begins with what an index knows: the status in
 * its row, or that it has tasks.
 */
export function hasStatus(statuses: readonly AgentStatus[], parameter: string): string {
  const isStored = `a.status = any(${parameter})`;
  const hasTasks = `a.id = any(array(select t.assigned_agent_id from tasks t where t.status in ('assigned', 'in_progress')))`;
  const mayHave = statuses.includes('busy') ? `(${isStored} or ${hasTasks})` : isStored;
  return `${mayHave} and (${AGENT_STATUS}) = any(${parameter})`;
}

const AGENT_COLUMNS = `
  a.id, a.workspace_id, a.name, ${AGENT_STATUS} as status, a.suspended_at is not null as suspended, a.current_version, v.created_at as version_created_at, v.definition, v.content_hash, a.external_id, a.created_at, a.updated_at`;

export const AGENT_TABLES = 'agents a join agent_versions v on v.agent_id = a.id and v.version = a.current_version';

const VERSION_COLUMNS = 'agent_id, version, ordinal, definition, created_at';

/** Inserts an agent with its first version. */
export async function insertAgent(tx: Tx, agent: NewAgentVersion & { workspaceId: string }): Promise<void> {
  await tx.query(
    `insert into agents (id, tenant_id, workspace_id, name, own_name, status, current_version)
     values ($1, $2, $3, $4, $4, 'active', $5)`,
    [agent.agentId, agent.tenantId, agent.workspaceId, agent.definition.name, agent.version],
  );
  await insertVersion(tx, agent);
}

/** Adds a version and makes it the current one. The caller must hold the agent's lock (`lockAgent`). */
export async function publishAgentVersion(tx: Tx, version: NewAgentVersion): Promise<void> {
  await insertVersion(tx, version);
  await tx.query(
    `update agents set current_version = $2, name = $3, own_name = case when name = $3 then own_name else $3 end, updated_at = now() where id = $1`,
    [version.agentId, version.version, version.definition.name],
  );
  const wanted = version.definition.memory_config?.long_term?.embedding_model;
  await noteWantedModel(tx, { agentId: version.agentId, wanted });
}

async function insertVersion(tx: Tx, version: NewAgentVersion): Promise<void> {
  const { tenantId, agentId } = version;
  const names = version.definition.capabilities?.map(({ skill_name }) => skill_name) ?? [];
  await setAgentSkills(tx, { tenantId, agentId, names });
  await tx.query(
    `insert into agent_versions (agent_id, version, ordinal, tenant_id, definition, content_hash)
     select $1, $2, coalesce(max(ordinal), 0) + 1, $3, $4::jsonb, $5 from agent_versions where agent_id = $1`,
    [version.agentId, version.version, version.tenantId, JSON.stringify(version.definition), version.contentHash],
  );
}

/** An agent with its current definition; only of this workspace, if given. */
export async function findAgent(tx: Tx, id: string, workspaceId?: string): Promise<AgentRow | undefined> {
  const [row] = await fetchRows<AgentRow>(
    tx,
    selectFrom(AGENT_COLUMNS, AGENT_TABLES, [
      ['a.id', '=', id],
      ['a.workspace_id', '=', workspaceId],
    ]),
  );
  return row;
}

/** Like `findAgent`, but locked until the transaction ends. */
export async function lockAgent(tx: Tx, id: string, workspaceId: string): Promise<AgentRow | undefined> {
  // First the lock, then the row: a statement that waited for the lock would join the previous version.
  await tx.query('select 1 as locked from agents where id = $1 for update', [id]);
  return findAgent(tx, id, workspaceId);
}

/** Locks a name until the transaction ends. */
export async function lockAgentName(tx: Tx, workspaceId: string, name: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock(hashtextextended('drover:agent-name:' || $1 || ':' || $2, 0))`, [
    workspaceId,
    name,
  ]);
}

/** The id of the agent with a name; the oldest of several. Deprecated agents are ignored. */
export async function findByName(tx: Tx, workspaceId: string, name: string): Promise<string | undefined> {
  const [row] = await tx.query<{ id: string }>(
    `select id from agents where workspace_id = $1 and name = $2 and status <> 'deprecated'
     order by own_name is not distinct from name desc, created_at, id limit 1`,
    [workspaceId, name],
  );
  return row?.id;
}

/** The definition of the deprecated agent that had this name last. */
export async function findDeprecatedAgent(
  tx: Tx,
  workspaceId: string,
  name: string,
): Promise<AgentDefinition | undefined> {
  // By its version, since a change of its external id still touches a deprecated agent.
  const [row] = await tx.query<{ definition: AgentDefinition }>(
    `select v.definition from ${AGENT_TABLES} where a.workspace_id = $1 and a.status = 'deprecated' and a.name = $2
     order by v.created_at desc, a.id desc limit 1`,
    [workspaceId, name],
  );
  return row?.definition;
}

interface AgentFilter {
  workspaceId: string;
  before?: string | undefined;
  limit: number;
  status?: AgentStatus | undefined;
  /** Only agents with all of these entries. */
  metadata?: Record<string, string> | undefined;
}

/** A page of a workspace's agents, newest first. */
export async function listAgents(tx: Tx, page: AgentFilter): Promise<Page<AgentRow>> {
  const query = selectFrom(`${AGENT_COLUMNS}, json_bytes(v.definition) as bytes`, AGENT_TABLES, [
    ['a.workspace_id', '=', page.workspaceId],
    ['a.id', '<', page.before],
  ]);
  if (page.status) {
    const statuses = [page.status];
    void query.whereRaw(hasStatus(statuses, ':statuses'), { statuses });
  }
  filterByMetadata(query, { kind: 'agent', id: 'a.id', column: `v.definition->'metadata'`, metadata: page.metadata });
  return fetchSizedPage<AgentRow>(tx, query, { order: 'id desc', limit: page.limit });
}

/** Agents with their current definitions, in any order. */
export async function listAgentsById(tx: Tx, ids: readonly string[]): Promise<AgentRow[]> {
  return tx.query<AgentRow>(`select ${AGENT_COLUMNS} from ${AGENT_TABLES} where a.id = any($1::uuid[])`, [ids]);
}

export interface AgentName {
  id: string;
  name: string;
  description: string | null;
}

/** Names of a workspace's agents that take runs, oldest first. */
export async function listAgentNames(tx: Tx, workspaceId: string, limit: number): Promise<AgentName[]> {
  return tx.query<AgentName>(
    `select a.id, a.name, v.definition->>'description' as description from ${AGENT_TABLES}
     where a.workspace_id = $1 and a.status <> 'deprecated' and v.definition->'is_active' is distinct from 'false'::jsonb
     order by a.id limit $2`,
    [workspaceId, limit],
  );
}

/** Agents whose tool name is `prefix`, with or without numbers after it; if not `isExact`, those whose tool name begins with it. */
export async function listNamesakes(
  tx: Tx,
  workspaceId: string,
  { prefix, isExact }: { prefix: string; isExact: boolean },
): Promise<AgentName[]> {
  const last = `${prefix}\u007f`;
  return tx.query<AgentName>(
    `select a.id, a.name, v.definition->>'description' as description from ${AGENT_TABLES}
     where a.workspace_id = $1 and a.status <> 'deprecated' and ${TOOL_NAME} >= $2 and ${TOOL_NAME} < $3
       and (not $4 or substr(${TOOL_NAME}, length($2) + 1) ~ '^(_[0-9]+)*$') order by a.id`,
    [workspaceId, prefix, last, isExact],
  );
}

/** Deprecates an agent: no new runs or versions; existing runs continue. */
export async function deprecateAgent(tx: Tx, id: string): Promise<void> {
  await tx.query(`update agents set status = 'deprecated', updated_at = now() where id = $1`, [id]);
}

/** A page of versions, newest first. */
export async function listAgentVersions(
  tx: Tx,
  page: { agentId: string; before?: number | undefined; limit: number },
): Promise<Page<AgentVersionRow>> {
  const query = selectFrom(`${VERSION_COLUMNS}, json_bytes(definition) as bytes`, 'agent_versions', [
    ['agent_id', '=', page.agentId],
    ['ordinal', '<', page.before],
  ]);
  return fetchSizedPage<AgentVersionRow>(tx, query, { order: 'ordinal desc', limit: page.limit });
}

/** One version of an agent. */
export async function findAgentVersion(tx: Tx, agentId: string, version: string): Promise<AgentVersionRow | undefined> {
  const [row] = await tx.query<AgentVersionRow>(
    `select ${VERSION_COLUMNS} from agent_versions where agent_id = $1 and version = $2`,
    [agentId, version],
  );
  return row;
}

/** The newest version when a run began; undefined if there was none yet. */
export async function findVersionAsOf(
  tx: Tx,
  of: { agentId: string; runId: string },
): Promise<AgentVersionRow | undefined> {
  const [row] = await tx.query<AgentVersionRow>(
    `select v.agent_id, v.version, v.ordinal, v.definition, v.created_at from runs r join agent_versions v on v.created_at <= r.created_at
       where r.id = $2 and v.agent_id = $1 order by v.ordinal desc limit 1`,
    [of.agentId, of.runId],
  );
  return row;
}

/** The definition of the version pinned by a run. */
export async function loadAgentVersion(tx: Tx, agentId: string, version: string): Promise<AgentDefinition | undefined> {
  return (await findAgentVersion(tx, agentId, version))?.definition;
}

/** The given ids that belong to agents of the workspace, without deprecated ones. */
export async function listWorkspaceAgents(tx: Tx, workspaceId: string, ids: readonly string[]): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select id from agents where workspace_id = $1 and id = any($2) and status <> 'deprecated'`,
    [workspaceId, ids],
  );
  return rows.map(({ id }) => id);
}

/** Those of these ids that are no agents of the workspace; one that is deprecated still is. */
export async function listUnknownAgents(tx: Tx, workspaceId: string, ids: readonly string[]): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    'select id from agents where workspace_id = $1 and id = any($2::uuid[])',
    [workspaceId, ids],
  );
  const known = new Set(rows.map(({ id }) => id));
  return ids.filter((id) => !known.has(id));
}

/** Ids of a workspace's agents that are not deprecated, by the names or ids that were asked for. */
export async function findAgentIds(
  tx: Tx,
  workspaceId: string,
  names: readonly string[],
): Promise<Map<string, string>> {
  const rows = await tx.query<{ id: string; name: string }>(
    `select id, name from agents where workspace_id = $1 and status <> 'deprecated' and (id::text = any($2) or name = any($2))
     order by id`,
    [workspaceId, names],
  );
  const found = new Map<string, string>();
  for (const { id, name } of rows) {
    if (!found.has(name)) found.set(name, id);
  }
  for (const { id } of rows) found.set(id, id);
  return found;
}

/** Names of agents by their ids. */
export async function findAgentNames(tx: Tx, ids: readonly string[]): Promise<Map<string, string>> {
  const rows = await tx.query<{ id: string; name: string }>('select id, name from agents where id = any($1::uuid[])', [
    ids,
  ]);
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** Ids of the workspace's agents that take runs, at most two. */
export async function listActiveAgents(tx: Tx, workspaceId: string): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select a.id from agents a join agent_versions v on v.agent_id = a.id and v.version = a.current_version
      where a.workspace_id = $1 and a.status <> 'deprecated' and v.definition->'is_active' is distinct from 'false'::jsonb
      order by a.id limit 2`,
    [workspaceId],
  );
  return rows.map(({ id }) => id);
}
