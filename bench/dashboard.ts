/** The dashboard of a workspace with a million runs of one turn each, the last thousand of them not yet in the sums. */
import pg from 'pg';
import { readOwnUsage, readQueueStates, readUsage, countWaiting, listFailedTurns } from '../db/dashboard.ts';
import type { Tx } from '../db/database.ts';
import { DEFAULT_TENANT_ID } from '../modules/tenants/bootstrap.ts';
import { openDrover, type BenchDrover } from './drover.ts';
import type { Figure } from './figures.ts';
import type { Services } from './services.ts';

const RUNS = 1_000_000;
const AGENTS = 20;
const DAYS = 365;
const NOT_ADDED = 1000;
const TIMES = 20;
const PAGE = 50;
/** One of the two agents to which the failed runs (every fiftieth) belong. */
const FAILING = 'ddbc7d1c-462f-c801-5d64-c918e9ea8120';
const NOBODY = '00000000-0000-4000-8000-000000000000';
/** Sequential scans of smaller tables are fine. */
const LARGE_ROWS = 1000;

/** Inserts the runs and their sums, and times the queries of each part of the dashboard. */
export async function measureDashboard(services: Services): Promise<Figure[]> {
  const drover = await openDrover('pure', services);
  const client = new pg.Client(services.databaseUrl);
  await client.connect();
  try {
    const workspaceId = await makeRuns(client);
    const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10);
    const of = { tenantId: DEFAULT_TENANT_ID, workspaceId };
    const range = (days: number) => ({ ...of, from: day(days), to: day(-1) });
    const runs = { kinds: ['run'] as const };
    const models = { kinds: ['model', 'tool'] as const };
    const parts: [what: string, read: (tx: Tx) => Promise<unknown>][] = [
      ['runs of 30 days, by day', (tx) => readUsage(tx, { ...range(30), ...runs, by: 'day' })],
      ['runs of a year, by day', (tx) => readUsage(tx, { ...range(DAYS), ...runs, by: 'day' })],
      ['agents of 7 days', (tx) => readUsage(tx, { ...range(7), ...runs, by: 'agent' })],
      ['models and tools of 30 days', (tx) => readUsage(tx, { ...range(30), ...models, by: 'all' })],
      ["Drover's own calls of 30 days", (tx) => readOwnUsage(tx, range(30))],
      ['queues', (tx) => readQueueStates(tx, of.tenantId)],
      ['people who are waited for', (tx) => countWaiting(tx, of)],
      ['errors, newest first', (tx) => listFailedTurns(tx, { ...of, limit: PAGE })],
      ['errors of 30 days', (tx) => listFailedTurns(tx, { ...range(30), limit: PAGE })],
      ['errors of an agent that has some', (tx) => listFailedTurns(tx, { ...of, agentId: FAILING, limit: PAGE })],
      ['errors of an agent that has none', (tx) => listFailedTurns(tx, { ...of, agentId: NOBODY, limit: PAGE })],
    ];
    const figures: Figure[] = [];
    for (const [what, read] of parts) {
      const value = await medianMs(drover, read);
      figures.push({ part: 'dashboard', what: `${what}, of ${RUNS} runs`, value, unit: 'ms', goal: '< 50' });
    }
    const whole = await readAsAWhole(drover, parts);
    figures.push({ part: 'dashboard', what: 'tables read as a whole', value: whole, unit: '', goal: '0' });
    return figures;
  } finally {
    await client.end();
    await drover.close();
  }
}

/** Throws with the plan if any part reads a large table sequentially; otherwise 0. */
async function readAsAWhole(
  { context: { db } }: BenchDrover,
  parts: readonly [what: string, read: (tx: Tx) => Promise<unknown>][],
): Promise<number> {
  for (const [what, read] of parts) {
    const plans: string[] = [];
    await db.withTenant(DEFAULT_TENANT_ID, async (tx) => {
      const query = async (sql: string, values?: readonly unknown[]) => {
        const lines = await tx.query<{ 'QUERY PLAN': string }>(`explain ${sql}`, values);
        plans.push(lines.map((line) => line['QUERY PLAN']).join('\n'));
        return [];
      };
      await read({ ...tx, query });
    });
    for (const plan of plans) {
      const rows = [...plan.matchAll(/Seq Scan on .* rows=(\d+)/g)].map(([, count]) => Number(count));
      if (rows.some((count) => count >= LARGE_ROWS)) throw new Error(`${what}:\n${plan}`);
    }
  }
  return 0;
}

async function medianMs(drover: BenchDrover, read: (tx: Tx) => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let time = 0; time < TIMES; time++) {
    const startedMs = performance.now();
    await drover.context.db.withTenant(DEFAULT_TENANT_ID, read);
    times.push(performance.now() - startedMs);
  }
  return times.toSorted((a, b) => a - b)[TIMES / 2] ?? Number.NaN;
}

async function makeRuns(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ id: string }>('select id from workspaces where tenant_id = $1 limit 1', [
    DEFAULT_TENANT_ID,
  ]);
  const workspaceId = rows[0]?.id ?? '';
  // Without foreign keys: checking them is slow, and not measured.
  await client.query('set session_replication_role = replica');
  await client.query(
    `insert into runs (id, tenant_id, workspace_id, agent_id, agent_version, thread_id, kind, status, turn_count, config, pinned,
         keep_open, lineage, lineage_base, base_length, length, steps, tokens_in, tokens_out, cost_usd, depth, created_at,
         started_at, completed_at, updated_at, last_seq, fence, dormant, rolled_up)
       select md5('run ' || i)::uuid, $1, $2, md5('agent ' || i % $3)::uuid, '1.0.0', md5('thread ' || i)::uuid, 'agent',
         case when i % 50 = 0 then 'failed' else 'completed' end, 1, '{}', '{}', false, md5('run ' || i)::uuid, '[]', 0, 2, 3,
         1000, 100, 0.01, 0, t, t, t + interval '5 seconds', t, 9, 1, true, i > $6
       from generate_series(1, $4::int) i, lateral (select case when i > $6 then now() - (i % $5) * interval '1 day' else now() end as t) at`,
    [DEFAULT_TENANT_ID, workspaceId, AGENTS, RUNS, DAYS, NOT_ADDED],
  );
  await client.query(
    `insert into turns (id, tenant_id, run_id, number, status, input, error, steps, tokens_in, tokens_out, created_at, completed_at, started_seq, failed_agent_id,
         agent_id)
       select md5('turn ' || id)::uuid, tenant_id, id, 1, case status when 'failed' then 'failed' else 'complete' end, '{"message": "m"}',
         case status when 'failed' then '{"code": "model_unavailable", "message": "No model could be asked."}'::jsonb end, 3, 1000, 100,
         created_at, completed_at, 2, case status when 'failed' then agent_id end, agent_id from runs`,
  );
  await client.query(
    `insert into usage_daily (tenant_id, workspace_id, agent_id, day, kind, name, count, failed, turns, steps, tokens_in, tokens_out,
         cost_usd, duration_ms)
       select tenant_id, workspace_id, agent_id, (created_at at time zone 'UTC')::date, k.kind, k.prefix || status, count(*), 0, count(*), 3, 1000,
         100, 0.01, 5000 from runs, (values ('run', ''), ('model', 'anthropic/'), ('tool', 'tool ')) k (kind, prefix)
       where rolled_up group by 1, 2, 3, 4, 5, 6`,
  );
  await client.query('set session_replication_role = origin');
  await client.query('analyze');
  return workspaceId;
}
