import type { AgentDefinition } from '../core/definition.ts';
import type { Tx } from './database.ts';

export type AgentStatus = 'active' | 'idle' | 'busy' | 'offline' | 'deprecated';

/** An agent with its current definition. */
export interface AgentRow {
  id: string;
  workspace_id: string;
  name: string;
  status: AgentStatus;
  suspended: boolean;
  current_version: string;
  definition: AgentDefinition;
  content_hash: string;
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

export interface NewAgentVersion {
  tenantId: string;
  agentId: string;
  version: string;
  definition: AgentDefinition;
  contentHash: string;
}

const AGENT = `
  select a.id, a.workspace_id, a.name, a.status, a.suspended_at is not null as suspended, a.current_version, v.definition, v.content_hash, a.created_at, a.updated_at
  from agents a join agent_versions v on v.agent_id = a.id and v.version = a.current_version`;

const VERSION = 'select agent_id, version, ordinal, definition, created_at from agent_versions';

/** Makes an agent with its first version. */
export async function insertAgent(tx: Tx, agent: NewAgentVersion & { workspaceId: string }): Promise<void> {
  await tx.query(
    `insert into agents (id, tenant_id, workspace_id, name, status, current_version) values ($1, $2, $3, $4, 'active', $5)`,
    [agent.agentId, agent.tenantId, agent.workspaceId, agent.definition.name, agent.version],
  );
  await insertVersion(tx, agent);
}

/** Makes a version the current one. The caller holds the agent (`lockAgent`). */
export async function publishAgentVersion(tx: Tx, version: NewAgentVersion): Promise<void> {
  await insertVersion(tx, version);
  await tx.query('update agents set current_version = $2, name = $3, updated_at = now() where id = $1', [
    version.agentId,
    version.version,
    version.definition.name,
  ]);
}

async function insertVersion(tx: Tx, version: NewAgentVersion): Promise<void> {
  await tx.query(
    `insert into agent_versions (agent_id, version, ordinal, tenant_id, definition, content_hash)
     select $1, $2, coalesce(max(ordinal), 0) + 1, $3, $4::jsonb, $5 from agent_versions where agent_id = $1`,
    [version.agentId, version.version, version.tenantId, JSON.stringify(version.definition), version.contentHash],
  );
}

/** An agent with its current definition, of this workspace where one is given. */
export async function findAgent(tx: Tx, id: string, workspaceId?: string): Promise<AgentRow | undefined> {
  const [row] = await tx.query<AgentRow>(`${AGENT} where a.id = $1 and ($2::uuid is null or a.workspace_id = $2)`, [
    id,
    workspaceId ?? null,
  ]);
  return row;
}

/** The same, and nobody else changes the agent until the transaction ends. */
export async function lockAgent(tx: Tx, id: string, workspaceId: string): Promise<AgentRow | undefined> {
  // The lock first, the row afterwards: a statement that waited for a lock would join the version of before.
  await tx.query('select 1 as locked from agents where id = $1 for update', [id]);
  return findAgent(tx, id, workspaceId);
}

/** A page of a workspace's agents, newest first. */
export async function listAgents(
  tx: Tx,
  page: { workspaceId: string; before?: string | undefined; limit: number; status?: AgentStatus | undefined },
): Promise<AgentRow[]> {
  return tx.query<AgentRow>(
    `${AGENT} where a.workspace_id = $1 and ($2::uuid is null or a.id < $2) and ($4::text is null or a.status = $4)
     order by a.id desc limit $3`,
    [page.workspaceId, page.before ?? null, page.limit, page.status ?? null],
  );
}

/** Deprecates an agent: no new runs and versions from now on; existing runs go on. */
export async function deprecateAgent(tx: Tx, id: string): Promise<void> {
  await tx.query(`update agents set status = 'deprecated', updated_at = now() where id = $1`, [id]);
}

/** A page of versions, newest first. */
export async function listAgentVersions(
  tx: Tx,
  page: { agentId: string; before?: number | undefined; limit: number },
): Promise<AgentVersionRow[]> {
  return tx.query<AgentVersionRow>(
    `${VERSION} where agent_id = $1 and ($2::int is null or ordinal < $2) order by ordinal desc limit $3`,
    [page.agentId, page.before ?? null, page.limit],
  );
}

/** One version of an agent. */
export async function findAgentVersion(tx: Tx, agentId: string, version: string): Promise<AgentVersionRow | undefined> {
  const [row] = await tx.query<AgentVersionRow>(`${VERSION} where agent_id = $1 and version = $2`, [agentId, version]);
  return row;
}

/** The definition that a run has pinned. */
export async function loadAgentVersion(tx: Tx, agentId: string, version: string): Promise<AgentDefinition | undefined> {
  return (await findAgentVersion(tx, agentId, version))?.definition;
}
