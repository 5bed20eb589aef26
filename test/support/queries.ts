/** What tests read and move in tables, where no function of Drover does. One function for each question. */
import type { Database, Tx } from '../../db/database.ts';
import { listSimilarSkills } from '../../db/skills.ts';
import { listWorkers } from '../../db/workers.ts';
import type { Engine } from './engine.ts';
import { query } from './template.ts';

type Rows = Pick<Engine, 'row' | 'rows'>;

export interface CallRow {
  status: string;
  attempt: number;
}

export async function statusOfRun(engine: Rows, run: string): Promise<string> {
  return (await engine.row<{ status: string }>('select status from runs where id = $1', run)).status;
}

export async function fenceOfRun(engine: Rows, run: string): Promise<number> {
  return (await engine.row<{ fence: number }>('select fence from runs where id = $1', run)).fence;
}

/** Of the run's only call. */
export function callOfRun(engine: Rows, run: string): Promise<CallRow> {
  return engine.row<CallRow>('select status, attempt from tool_calls where run_id = $1', run);
}

export function callsOfRun(engine: Rows, run: string): Promise<CallRow[]> {
  return engine.rows<CallRow>('select status, attempt from tool_calls where run_id = $1 order by place', run);
}

/** How the run's only call stands, with what came of it. */
export function endOfCall(engine: Rows, run: string): Promise<CallRow & { code: string | null; output: unknown }> {
  return engine.row("select status, attempt, error->>'code' as code, output from tool_calls where run_id = $1", run);
}

/** In the order in which they were proposed. */
export function batchesOfRun<R extends object>(engine: Rows, run: string): Promise<R[]> {
  return engine.rows<R>('select * from plans where run_id = $1 order by step', run);
}

/** In the order in which they were asked for. */
export function approvalsOfRun<R extends object = { id: string }>(engine: Rows, run: string): Promise<R[]> {
  return engine.rows<R>('select * from approvals where run_id = $1 order by id', run);
}

/** As if the time until the next attempt of every delivery had passed, and what a dead sender held were free. */
export async function makeDeliveriesDue(databaseUrl: string): Promise<void> {
  await query(databaseUrl, 'update webhook_deliveries set next_at = now()');
  await query(databaseUrl, 'update webhooks set next_at = null, taken_until = null');
}

/** As if an agent had been silent, and offline where it is, for so many seconds. */
export async function silenceAgent(db: Owned, id: string, seconds: number): Promise<void> {
  await db.asOwner((client) =>
    client.query(
      `update agents set last_heartbeat_at = clock_timestamp() - $2 * interval '1 second',
         offline_since = case when status = 'offline' then clock_timestamp() - $2 * interval '1 second' end where id = $1`,
      [id, seconds],
    ),
  );
}

type Owned = Pick<Database, 'asOwner'>;

/** As if the time to decide on every open approval had passed. */
export async function expireApprovals(db: Owned): Promise<void> {
  const text = `update approvals set expires_at = now() - interval '1 second' where status = 'pending'`;
  await db.asOwner((client) => client.query(text));
}

/** How many push configurations a run has. */
export async function countPushConfigsOf(db: Owned, runId: string): Promise<number> {
  const text = 'select count(*)::int as count from webhooks where run_id = $1';
  return (await db.asOwner((client) => client.query<{ count: number }>(text, [runId]))).rows[0]?.count ?? 0;
}

/** As if a run had ended so many hours ago. */
export async function ageEnd(db: Owned, runId: string, hours: number): Promise<void> {
  const text = `update runs set completed_at = now() - $2 * interval '1 hour' where id = $1`;
  await db.asOwner((client) => client.query(text, [runId, hours]));
}

/** What webhooks are told of beside the logs of runs, by type. */
export async function noticesTold(db: Owned): Promise<{ type: string; notice: object }[]> {
  const text = 'select type, notice from webhook_deliveries where notice is not null order by type';
  return (await db.asOwner((client) => client.query<{ type: string; notice: object }>(text))).rows;
}

/** Approvals that are about entries of memory. */
export async function memoryConflicts(db: Owned): Promise<object[]> {
  const text = `select arguments from approvals where subject_type = 'memory'`;
  return (await db.asOwner((client) => client.query<object>(text))).rows;
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
  const rows = await db.withTenant(id, async (tx) => {
    const explained = {
      query: <R extends object>(text: string, values?: unknown[]) => tx.query<R>(`explain ${text}`, values),
    };
    return listWorkers({ ...tx, ...explained }, { workspaceId, skills: [['skill_7']] });
  });
  return (rows as unknown as { 'QUERY PLAN': string }[]).map((row) => row['QUERY PLAN']).join('\n');
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
      if (/<=>/.test(text)) plans.push(...(await linesOf(tx, text, values)));
      return tx.query<R>(text, values);
    };
    return listSimilarSkills({ ...tx, query: explaining }, { name: 'made 1', model: 'offline', least: 0.7 });
  });
  return plans.join('\n');
}

async function linesOf(tx: Tx, text: string, values?: unknown[]): Promise<string[]> {
  const rows = await tx.query<{ 'QUERY PLAN': string }>(`explain ${text}`, values);
  return rows.map((row) => row['QUERY PLAN']);
}

/** How many rows of a table the transaction has read so far, whether it needed them or not. */
export async function readRows(tx: Tx, table: string): Promise<number> {
  const [row] = await tx.query<{ rows: number }>(
    'select (seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_xact_user_tables where relname = $1',
    [table],
  );
  return row?.rows ?? 0;
}
