import type { ToolDefinition } from '../core/tool.ts';
import { isUuid } from '../lib/is-uuid.ts';
import type { Tx } from './database.ts';
import { fetchSizedPage, type Page } from './page-bytes.ts';
import { allHold, selectFrom } from './query-builder.ts';

/** A registered tool with its current definition. Built-in tools have no rows. */
export interface ToolRow {
  id: string;
  name: string;
  suspended: boolean;
  proposed: ProposedTool | null;
  current_version: string;
  definition: ToolDefinition;
  content_hash: string;
  created_at: Date;
  updated_at: Date;
}

/** A server's new description of a tool that differs from the registered one. */
export interface ProposedTool {
  /** `unreadable`: the server's list cannot be used, so nobody knows. */
  reason: 'changed' | 'gone' | 'unreadable';
  changes: Record<string, { from: unknown; to: unknown }>;
}

interface NewToolVersion {
  tenantId: string;
  definition: ToolDefinition;
  contentHash: string;
}

const COLUMNS = `
  t.id, t.name, t.suspended_at is not null as suspended, t.proposed, t.current_version, v.definition, v.content_hash, t.created_at, t.updated_at`;
const SIZED = `${COLUMNS}, json_bytes(v.definition) + coalesce(json_bytes(t.proposed), 0) as bytes`;
const TABLES = 'tools t join tool_versions v on v.tool_id = t.id and v.version = t.current_version';
const TOOL = `select ${COLUMNS} from ${TABLES} where t.status = 'registered'`;

/** Inserts a tool with its first version; undefined if the name is taken. */
export async function insertTool(tx: Tx, tool: NewToolVersion): Promise<ToolRow | undefined> {
  const { id, name, version } = tool.definition;
  const made = await tx.query(
    `insert into tools (id, tenant_id, name, status, current_version) values ($1, $2, $3, 'registered', $4)
     on conflict (tenant_id, name) where status = 'registered' do nothing returning id`,
    [id, tool.tenantId, name, version],
  );
  if (made.length === 0) return undefined;
  await insertVersion(tx, tool);
  return findTool(tx, id);
}

/** Adds a version and makes it current. The caller must hold the tool's lock (`lockTool`). */
export async function publishToolVersion(tx: Tx, tool: NewToolVersion): Promise<ToolRow | undefined> {
  await insertVersion(tx, tool);
  const { id, version } = tool.definition;
  // Publishing overrides whatever the server has proposed.
  await tx.query('update tools set current_version = $2, proposed = null, updated_at = now() where id = $1', [
    id,
    version,
  ]);
  return findTool(tx, id);
}

async function insertVersion(tx: Tx, { tenantId, definition, contentHash }: NewToolVersion): Promise<void> {
  await tx.query(
    `insert into tool_versions (tool_id, version, ordinal, tenant_id, definition, content_hash)
     select $1, $2, coalesce(max(ordinal), 0) + 1, $3, $4::jsonb, $5 from tool_versions where tool_id = $1`,
    [definition.id, definition.version, tenantId, JSON.stringify(definition), contentHash],
  );
}

/** A registered tool by its id. */
export async function findTool(tx: Tx, id: string): Promise<ToolRow | undefined> {
  const [row] = await tx.query<ToolRow>(`${TOOL} and t.id = $1`, [id]);
  return row;
}

/** A tool by id or name, locked until the transaction ends. */
export async function lockTool(tx: Tx, idOrName: string): Promise<ToolRow | undefined> {
  // First the lock, then the row: a statement that waited for the lock would join the previous version.
  const [locked] = await tx.query<{ id: string }>(
    `select id from tools where status = 'registered' and (id::text = $1 or name = $1) for update`,
    [idOrName],
  );
  return locked && findTool(tx, locked.id);
}

/** The last definition of a deleted tool with this name. */
export async function findDeletedTool(tx: Tx, name: string): Promise<ToolDefinition | undefined> {
  const [row] = await tx.query<{ definition: ToolDefinition }>(
    `select v.definition from ${TABLES} where t.status = 'deleted' and t.name = $1 order by t.updated_at desc limit 1`,
    [name],
  );
  return row?.definition;
}

/** Registered tools by id or name, unordered; unknown ones are left out. */
export async function findTools(tx: Tx, idsOrNames: readonly string[]): Promise<ToolRow[]> {
  if (idsOrNames.length === 0) return [];
  return tx.query<ToolRow>(`${TOOL} and (t.name = any($1::text[]) or t.id = any($2::uuid[]))`, [
    idsOrNames,
    idsOrNames.filter(isUuid),
  ]);
}

/** Registered tools by their names at their servers, given in lower case with `_` for anything but letters and digits. */
export async function findToolsByRemoteName(tx: Tx, plainNames: readonly string[]): Promise<ToolRow[]> {
  if (plainNames.length === 0) return [];
  const remoteName = `coalesce(v.definition->'transport'->>'tool', t.name)`;
  return tx.query<ToolRow>(
    `${TOOL} and v.definition->'transport'->>'endpoint' is not null
       and regexp_replace(lower(${remoteName}), '[^a-z0-9]', '_', 'g') = any($1::text[])`,
    [plainNames],
  );
}

const NEEDS = '(t.id, t.current_version) in (select k.tool_id, k.version from tool_permissions k where k.name = ?)';

/** A page of registered tools, newest first. `permissions`: only tools that need all of these. */
export async function listTools(
  tx: Tx,
  page: { before?: string | undefined; limit: number; name?: string | undefined; permissions?: string[] | undefined },
): Promise<Page<ToolRow>> {
  const query = selectFrom(SIZED, TABLES, [
    ['t.status', '=', 'registered'],
    ['t.id', '<', page.before],
    ['t.name', '=', page.name],
  ]);
  const needed = [...new Set(page.permissions)];
  if (needed.length > 0) void query.whereRaw(allHold(needed.map(() => NEEDS)), needed);
  return fetchSizedPage<ToolRow>(tx, query, { order: 'id desc', limit: page.limit });
}

/** Registered tools of a transport type, oldest first. */
export async function listToolsOver(tx: Tx, transportType: string): Promise<ToolRow[]> {
  return tx.query<ToolRow>(`${TOOL} and v.definition->'transport'->>'type' = $1 order by t.id`, [transportType]);
}

/** Stores a server's proposal beside the registered definition; null removes it. */
export async function proposeTool(tx: Tx, id: string, proposed: ProposedTool | null): Promise<void> {
  await tx.query('update tools set proposed = $2::jsonb where id = $1', [id, proposed && JSON.stringify(proposed)]);
}

/** Deletes a tool: its name becomes free; runs with a pinned version can still load it. */
export async function deleteTool(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx.query(
    `update tools set status = 'deleted', updated_at = now() where id = $1 and status = 'registered' returning id`,
    [id],
  );
  return rows.length > 0;
}

/** Definitions of these versions, unordered; built-in and unknown tools are left out. */
export async function loadToolVersions(
  tx: Tx,
  pinned: readonly { id: string; version: string }[],
): Promise<ToolDefinition[]> {
  if (pinned.length === 0) return [];
  const rows = await tx.query<{ definition: ToolDefinition }>(
    `select v.definition from tool_versions v
     join unnest($1::uuid[], $2::text[]) as p (id, version) on v.tool_id = p.id and v.version = p.version`,
    [pinned.map(({ id }) => id), pinned.map(({ version }) => version)],
  );
  return rows.map(({ definition }) => definition);
}
