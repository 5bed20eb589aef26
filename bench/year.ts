/**
 * A year of an installation, day by day, by a clock that this moves (`bench/year.sh`): a day's costs must not grow with the
 * days before.
 */
import { writeFileSync } from 'node:fs';
import pg from 'pg';
import { MAINTENANCE_ACTS } from '../jobs/maintenance.ts';
import { maintain } from '../modules/platform/maintain.ts';
import { createRun } from '../modules/runs/create-run.ts';
import { DEFAULT_TENANT_ID, DEFAULT_WORKSPACE_ID } from '../modules/tenants/bootstrap.ts';
import { openDrover, type BenchDrover } from './drover.ts';
import type { Figure } from './figures.ts';
import { claimCost } from './partitions.ts';
import type { Services } from './services.ts';
import { pad } from './work.ts';

const DAYS = 365;
const RUNS_A_DAY = 20;
/** Days per figure. */
const MONTH = 30;

/** Tables that hold only current and recent work. */
const PASSING = [
  'outbox',
  'idempotency_keys',
  'reservations',
  'waits',
  'signals',
  'webhook_deliveries',
  'rate_counts',
  'own_model_calls',
  'parked_runs',
  'model_outages',
];

interface Day {
  runsMs: number;
  threadMs: number;
  maintenanceMs: number;
}

/** Each day: some runs, one on a thread that continues all year, and every maintenance act. Vacuum is left to Postgres. */
export async function measureYear(services: Services): Promise<Figure[]> {
  const clock = process.env['YEAR_CLOCK'];
  if (clock === undefined) throw new Error('The clock is missing: run bench/year.sh.');
  const drover = await openDrover('pure', services);
  const client = new pg.Client(services.databaseUrl);
  await client.connect();
  const days: Day[] = [];
  const passing: number[] = [];
  try {
    await drover.serve(RUNS_A_DAY);
    const { run, thread } = await begin(drover, 0);
    await drover.ended(run);
    const first = await claimCost(client, run);
    for (let day = 1; day <= DAYS; day++) {
      writeFileSync(clock, `+${day}d\n`);
      days.push(await live(drover, thread, day));
      if (day % MONTH === 0) {
        passing.push(await rowsOf(client, PASSING));
        process.stderr.write(`day ${day}\n`);
      }
    }
    const last = await claimCost(client, run);
    return [...daysFigures(days), ...(await placeFigures(client, { first, last, passing }))];
  } finally {
    await client.end();
    await drover.close();
  }
}

async function live(drover: BenchDrover, threadId: string, day: number): Promise<Day> {
  const runsMs = await timed(async () => {
    const runs = Array.from({ length: RUNS_A_DAY }, () => begin(drover, day));
    await Promise.all(runs.map(async (begun) => drover.ended((await begun).run)));
  });
  const threadMs = await timed(async () => drover.ended((await begin(drover, day, threadId)).run));
  const maintenanceMs = await timed(async () => {
    for (const act of MAINTENANCE_ACTS) await maintain(drover.context, act);
  });
  return { runsMs, threadMs, maintenanceMs };
}

/** Creates a run with an idempotency key and a budget, like clients do. */
async function begin(
  { context, agentId }: BenchDrover,
  day: number,
  threadId?: string,
): Promise<{ run: string; thread: string }> {
  const tenantId = DEFAULT_TENANT_ID;
  const { body } = await createRun(context, {
    tenantId,
    workspaceId: DEFAULT_WORKSPACE_ID,
    agentId,
    threadId,
    input: { message: pad() },
    config: { budget: { max_tokens: 100_000 } },
    mayRaiseAutonomy: false,
    idempotency: { tenantId, route: 'bench', body: {}, key: `${day}-${Math.random()}` },
  });
  return { run: body.run_id, thread: body.thread_id };
}

function daysFigures(days: readonly Day[]): Figure[] {
  const [begun, ended] = [days.slice(0, MONTH), days.slice(-MONTH)];
  return (['runsMs', 'threadMs', 'maintenanceMs'] as const).map((key) => {
    const early = median(begun.map((day) => day[key]));
    const late = median(ended.map((day) => day[key]));
    return {
      part: 'year',
      what: `${WHAT[key]}, in the last month`,
      value: late,
      unit: 'ms',
      ratio: { value: late / early, to: 'the first month' },
    };
  });
}

const WHAT = {
  runsMs: `${RUNS_A_DAY} runs at once`,
  threadMs: 'a run on a thread that has one every day',
  maintenanceMs: 'all acts of maintenance',
};

interface Place {
  first: Awaited<ReturnType<typeof claimCost>>;
  last: Awaited<ReturnType<typeof claimCost>>;
  passing: readonly number[];
}

async function placeFigures(client: pg.Client, { first, last, passing }: Place): Promise<Figure[]> {
  const figure = (what: string, value: number, unit: string): Figure => ({ part: 'year', what, value, unit });
  const count = async (sql: string) => Number((await client.query<{ count: string }>(sql)).rows[0]?.count);
  const beyond = await count(
    `select (select count(*) from run_log_default) + (select count(*) from messages_default) + (select count(*) from checkpoints_default) as count`,
  );
  const dead = await count(
    `select round(100.0 * sum(n_dead_tup) / greatest(1, sum(n_live_tup + n_dead_tup))) as count from pg_stat_user_tables`,
  );
  const { age } = (await client.query<{ age: number }>('select max(age(datfrozenxid))::int as age from pg_database'))
    .rows[0] ?? { age: Number.NaN };
  return [
    {
      ...figure(`a claim, ${last.partitions} partitions of each table`, last.ms, 'ms'),
      ratio: { value: last.ms / first.ms, to: `with ${first.partitions}` },
    },
    { ...figure('locks of a claim', last.locks, 'locks'), goal: '<= 20' },
    figure('rows of what passes, after a month', passing[0] ?? Number.NaN, 'rows'),
    figure('and after twelve', passing.at(-1) ?? Number.NaN, 'rows'),
    { ...figure('rows in partitions that are for no month', beyond, 'rows'), goal: '0' },
    figure('dead rows of all, as Postgres counts them', dead, '%'),
    figure('the oldest transaction that is not frozen', age, 'transactions'),
  ];
}

async function rowsOf(client: pg.Client, tables: readonly string[]): Promise<number> {
  const sum = tables.map((table) => `(select count(*) from ${table})`).join(' + ');
  return Number((await client.query<{ count: string }>(`select ${sum} as count`)).rows[0]?.count);
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

function median(list: readonly number[]): number {
  return list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)] ?? Number.NaN;
}
