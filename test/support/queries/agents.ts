/** Agents, tools and their servers, as tests read and change them. */
import assert from 'node:assert/strict';
import { findAgent } from '../../../db/agents.ts';
import type { Database } from '../../../db/database.ts';
import { findTools, type ToolRow } from '../../../db/tools.ts';
import { listSimilarSkills } from '../../../db/skills.ts';
import { listWorkers } from '../../../db/workers.ts';
import { row, rowsAsOwner, type Tenant } from './access.ts';
import { planOf } from './postgres.ts';

/** The ids or names of the tools that an agent's current version has. */
export async function toolsOfAgent({ context, tenantId }: Tenant, agent: string): Promise<string[]> {
  const found = await context.db.withTenant(tenantId, (tx) => findAgent(tx, agent));
  assert.ok(found, `no agent ${agent}`);
  return found.definition.tools ?? [];
}

/** A registered tool by its id or name. */
export async function toolNamed({ context, tenantId }: Tenant, idOrName: string | undefined): Promise<ToolRow> {
  const [found] = await context.db.withTenant(tenantId, (tx) => findTools(tx, [idOrName ?? '']));
  assert.ok(found, `no tool ${idOrName}`);
  return found;
}

/** The tool server whose address ends so. */
export async function serverAt(tenant: Tenant, path: string): Promise<string> {
  const sql = `select id from mcp_servers where address->>'endpoint' like $1`;
  return (await row<{ id: string }>(tenant, sql, `%${path}`)).id;
}

export async function isAgentSuspended(tenant: Tenant, agent: string): Promise<boolean> {
  const sql = 'select suspended_at is not null as is from agents where id = $1';
  return (await row<{ is: boolean }>(tenant, sql, agent)).is;
}

/** As if an agent had been silent, and offline where it is, for so many seconds. */
export async function silenceAgent(db: Pick<Database, 'asOwner'>, id: string, seconds: number): Promise<void> {
  await rowsAsOwner(
    db,
    `update agents set last_heartbeat_at = clock_timestamp() - $2 * interval '1 second',
       offline_since = case when status = 'offline' then clock_timestamp() - $2 * interval '1 second' end where id = $1`,
    id,
    seconds,
  );
}

/** Copies of an agent with skills of their own, `skill_0` to `skill_99` in turn. */
export async function makeManyAgents(
  db: Database,
  { id: tenantId, like, count }: { id: string; like: string; count: number },
): Promise<void> {
  await db.asOwner(async (client) => {
    await client.query(
      `with made as (
         insert into agents (id, tenant_id, workspace_id, name, status, current_version)
           select gen_random_uuid(), a.tenant_id, a.workspace_id, 'copy ' || n, 'active', a.current_version
           from agents a, generate_series(0, $2::int - 1) n where a.id = $1 returning id, tenant_id, name, current_version)
       insert into agent_versions (agent_id, version, ordinal, tenant_id, definition, content_hash)
         select made.id, made.current_version, 1, made.tenant_id, v.definition || jsonb_build_object('name', made.name, 'capabilities',
           jsonb_build_array(jsonb_build_object('skill_name', 'skill_' || substr(made.name, 6)::int % 100, 'proficiency', 0.8))), made.name
         from made join agent_versions v on v.agent_id = $1`,
      [like, count],
    );
    await client.query(
      `insert into agent_skills (tenant_id, agent_id, name)
         select tenant_id, agent_id, definition->'capabilities'->0->>'skill_name' from agent_versions
           where agent_id <> $1 and jsonb_array_length(definition->'capabilities') > 0 on conflict do nothing`,
      [like],
    );
    await client.query('analyze agents');
    await client.query('analyze agent_skills');
    await client.query('analyze agent_versions');
    return tenantId;
  });
}

/** How agents with a skill are found. */
export async function planOfDiscovery(
  db: Database,
  { id, workspace_id: workspaceId }: { id: string; workspace_id: string },
) {
  const plan = await db.withTenant(id, async (tx) => {
    const explained = {
      query: <R extends object>(text: string, values?: unknown[]) => tx.query<R>(`explain ${text}`, values),
    };
    return listWorkers({ ...tx, ...explained }, { workspaceId, skills: [['skill_7']] });
  });
  return (plan as unknown as { 'QUERY PLAN': string }[]).map((line) => line['QUERY PLAN']).join('\n');
}

/** So many skills with vectors of their own, and how those that are like one of them are found. */
export async function planOfSimilarSkills(db: Database, { id, count }: { id: string; count: number }): Promise<string> {
  await db.asOwner(async (client) => {
    await client.query(
      `insert into skills (tenant_id, name, embedding, embedding_model, tried_at)
         select $1, 'made ' || place, v.vector, 'offline', now() from generate_series(1, $2::int) place, lateral (
           select array_agg(random() - 0.5)::vector as vector from generate_series(1, 512) where place > 0) v`,
      [id, count],
    );
    await client.query('analyze skills');
  });
  const plans: string[] = [];
  await db.withTenant(id, (tx) => {
    const explaining = async <R extends object>(text: string, values?: unknown[]): Promise<R[]> => {
      if (/<=>/.test(text)) plans.push(await planOf(tx, text, values));
      return tx.query<R>(text, values);
    };
    return listSimilarSkills({ ...tx, query: explaining }, { name: 'made 1', model: 'offline', least: 0.7 });
  });
  return plans.join('\n');
}

/** A second agent with all that another one has, its name too, as a process of 0.1.0 makes it. */
export async function insertAgentAsOfOld(db: Database, { like }: { like: string }): Promise<string> {
  const [made] = await rowsAsOwner<{ id: string }>(
    db,
    `with made as (
       insert into agents (id, tenant_id, workspace_id, name, status, current_version)
         select gen_random_uuid(), tenant_id, workspace_id, name, status, current_version from agents where id = $1
         returning id, current_version)
     insert into agent_versions (agent_id, version, ordinal, tenant_id, definition, content_hash)
       select made.id, version, ordinal, tenant_id, definition, content_hash
       from made, agent_versions v where v.agent_id = $1 and v.version = made.current_version returning agent_id as id`,
    like,
  );
  assert.ok(made, `no agent ${like}`);
  return made.id;
}

/** Gives an agent a name as a process of 0.1.0 does. */
export async function renameAgentAsOfOld(db: Database, id: string, name: string): Promise<void> {
  await rowsAsOwner(db, 'update agents set name = $2, updated_at = now() where id = $1', id, name);
}
