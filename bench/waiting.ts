/** Runs that wait for a person: only rows. */
import pg from 'pg';
import { NO_TOKENS, type StreamModel } from '../core/model.ts';
import { MAINTENANCE_ACTS } from '../jobs/maintenance.ts';
import { maintain } from '../modules/platform/maintain.ts';
import { createMeter } from './costs.ts';
import { openDrover, type BenchDrover } from './drover.ts';
import type { Figure } from './figures.ts';
import type { Services } from './services.ts';

const WAITING = 100_000;

/** Makes one run wait, multiplies its rows, and compares a round of maintenance without and with them. */
export async function measureWaiting(services: Services): Promise<Figure[]> {
  const drover = await openDrover('pure', services, { stream: asks, tools: ['ask_user'] });
  const client = new pg.Client(services.databaseUrl);
  await client.connect();
  const meter = await createMeter(services);
  try {
    await drover.serve(1);
    const run = await drover.start();
    await drover.ended(run);
    const few = await tickMs(drover);
    const before = await meter.read();
    await multiply(client, run);
    const kb = ((await meter.read()).walKb - before.walKb) / WAITING;
    await client.query('analyze');
    const lot = await tickMs(drover);
    const counts = await drover.context.queues.queue('turns').getJobCounts('waiting', 'active', 'delayed');
    const jobs = Object.values(counts).reduce((sum, each) => sum + each, 0);
    const figure = (what: string, value: number, unit: string): Figure => ({ part: 'waiting', what, value, unit });
    return [
      figure(`jobs that ${WAITING} waiting runs hold`, jobs, 'jobs'),
      figure('WAL of one when it begins to wait (rows copied)', kb, 'KB'),
      {
        ...figure('a round of maintenance beside them', lot, 'ms'),
        ratio: { value: lot / few, to: 'one waiting run' },
      },
    ];
  } finally {
    await meter.close();
    await client.end();
    await drover.close();
  }
}

const asks: StreamModel = async () => ({
  provider: 'offline',
  model: 'stub',
  usage: { ...NO_TOKENS, input: 300, output: 250 },
  content: [{ type: 'tool_use', id: 'call_0', name: 'ask_user', input: { question: 'Go on?' } }],
  stopReason: 'tool_use',
});

/** Time of a round of all acts, in ms; a first round warms up. */
async function tickMs(drover: BenchDrover): Promise<number> {
  let startedMs = 0;
  for (let round = 0; round < 2; round++) {
    startedMs = performance.now();
    for (const act of MAINTENANCE_ACTS) await maintain(drover.context, act);
  }
  return performance.now() - startedMs;
}

/** Copies the run under new ids, ordered by time like Drover's. Only the tables' owner may do so. */
async function multiply(client: pg.Client, run: string): Promise<void> {
  const id =
    "(lpad(to_hex((extract(epoch from now()) * 1000)::bigint + n / 10), 12, '0') || left(md5(random()::text), 20))";
  await client.query(
    `create temp table copies as
     select ${id}::uuid as run, ${id}::uuid as turn, ${id}::uuid as call, ${id}::uuid as thread
     from generate_series(1, $1) n`,
    [WAITING - 1],
  );
  const copy = (table: string, ids: string, key: string) =>
    client.query(
      `insert into ${table} select made.* from copies c, ${table} t,
         jsonb_populate_record(t, jsonb_build_object(${ids})) made where t.${key} = $1`,
      [run],
    );
  await copy('runs', "'id', c.run, 'thread_id', c.thread, 'lineage', c.thread, 'open_turn_id', c.turn", 'id');
  await copy('turns', "'id', c.turn, 'run_id', c.run", 'run_id');
  await copy('tool_calls', "'id', c.call, 'run_id', c.run, 'turn_id', c.turn", 'run_id');
  await copy('waits', "'id', c.call, 'run_id', c.run, 'turn_id', c.turn", 'run_id');
}
