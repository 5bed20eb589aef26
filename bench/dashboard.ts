/** The dashboard of a workspace with a million runs, of which the last thousand have not been added up yet. */
import pg from 'pg';
import { readOwnUsage, readQueueStates, readUsage, countWaiting } from '../db/dashboard.ts';
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

/** Makes the runs and their sums by `insert … select`, and reads what each part of the dashboard shows. */
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
    ];
    const figures: Figure[] = [];
    for (const [what, read] of parts) {
      const value = await medianMs(drover, read);
      figures.push({ part: 'dashboard', what: `${what}, of ${RUNS} runs`, value, unit: 'ms', goal: '< 50' });
    }
    return figures;
  } finally {
    await client.end();
    await drover.close();
  }
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
  // Without foreign keys: they are not what is measured, and checking them takes long.
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
