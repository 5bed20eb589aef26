/** Workflows of slow subtasks: total time compared with the ideal, and rows left behind. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { quotasOf } from '../core/rate-limits.ts';
import { NO_TOKENS, type StreamModel } from '../core/model.ts';
import { remainingPaths, type Execution } from '../core/workflow.ts';
import { textOf } from '../core/content.ts';
import { createWorkflow } from '../modules/workflows/create-workflow.ts';
import { DEFAULT_TENANT_ID, DEFAULT_WORKSPACE_ID } from '../modules/tenants/bootstrap.ts';
import { openDrover, type BenchDrover } from './drover.ts';
import type { Figure } from './figures.ts';
import { readHops, type Hops } from './hops.ts';
import type { Services } from './services.ts';

const WORKERS = 3;
const LEVELS = 10;
const WIDTH = 100;
const TASK_MS = 250;
/** Subtasks of a workflow at a time (`LIMITS.subtasksAtOnce`). */
const AT_ONCE = 64;

const GRAPHS = 30;
const SIZE = 20;
const SLOTS = 8;
const MEAN_MS = 500;

interface Node {
  id: string;
  ms: number;
  dependencies: string[];
}

/** A thousand subtasks on ten levels, each depending on two of the level below, with three worker processes. */
export async function measureWorkflow(services: Services, startWorker: () => ChildProcess): Promise<Figure[]> {
  const drover = await openDrover('pure', services, { env: ENV });
  const workers = Array.from({ length: WORKERS }, startWorker);
  try {
    await Promise.all(workers.map((worker) => once(worker.stdout ?? worker, 'data')));
    const graph = wideGraph();
    const ideal = idealMs(graph, AT_ONCE);
    const { id, ms } = await carryOut(drover, graph, 'eager');
    const rows = await rowsOf(drover, id);
    const figure = (what: string, value: number, unit: string): Figure => ({ part: 'workflow', what, value, unit });
    const tasks = LEVELS * WIDTH;
    return [
      {
        ...figure(`${tasks} subtasks on ${LEVELS} levels, ${WORKERS} workers`, ms / 1000, 's'),
        ratio: { value: ms / ideal, to: `the ideal, ${(ideal / 1000).toFixed(1)} s` },
      },
      figure('a hop: what a level takes beyond its subtasks', (ms - ideal) / LEVELS, 'ms'),
      figure('what a subtask takes beyond its time, all in all', (ms - ideal) / tasks, 'ms'),
      figure('events in the log of the workflow', rows.own, 'events'),
      figure('rows that a subtask leaves, its run included', rows.all / tasks, 'rows'),
    ];
  } finally {
    for (const worker of workers) worker.kill('SIGKILL');
    await drover.close();
  }
}

/** Random graphs one after the other through the real queue and workers, eight subtasks at a time. */
export async function measureDags(services: Services): Promise<Figure[]> {
  const drover = await openDrover('pure', services, {
    env: { DROVER_QUEUE_PREFIX: 'bench-dags' },
    stream: sleeps,
    constraints: { max_concurrent_tasks: SLOTS },
  });
  try {
    await drover.serve(2 * SLOTS);
    const ratios = { eager: [] as number[], tasks: [] as number[], levels: [] as number[] };
    const hops: Hops[] = [];
    for (let seed = 1; seed <= GRAPHS; seed++) {
      const graph = randomGraph(generator(seed), SIZE);
      const ideal = idealMs(graph, SLOTS);
      const { id, ms } = await carryOut(drover, graph, 'eager');
      const found = await readHops(drover.context, id, SLOTS);
      hops.push(found);
      ratios.eager.push(ms / ideal);
      ratios.tasks.push(found.tasks / ideal);
      // Only every fifth: an order of magnitude is enough for levels.
      if (seed % 5 === 0) ratios.levels.push((await carryOut(drover, graph, 'levels')).ms / ideal);
    }
    const figure = { part: 'dags', unit: 'x ideal' };
    const took = (what: string, list: number[]): Figure => ({ part: 'dags', what, value: median(list), unit: 'ms' });
    return [
      {
        ...figure,
        what: `${GRAPHS} random graphs of ${SIZE}, ${SLOTS} at a time, eager`,
        value: mean(ratios.eager),
        goal: '<= 1.05',
      },
      { ...figure, what: 'the worst of them', value: Math.max(...ratios.eager) },
      { ...figure, what: 'their subtasks alone, from the first call to the last end', value: mean(ratios.tasks) },
      took(
        'before the first subtask, median',
        hops.map(({ head }) => head),
      ),
      took(
        'from the last input of a subtask to its model call, median',
        hops.flatMap(({ between }) => between),
      ),
      took(
        'what a subtask takes beyond its time, median',
        hops.flatMap(({ within }) => within),
      ),
      took(
        'after the last subtask, its answer put together by a model, median',
        hops.map(({ tail }) => tail),
      ),
      { ...figure, what: `${ratios.levels.length} of them by levels`, value: mean(ratios.levels), goal: '1.4 to 1.65' },
    ];
  } finally {
    await drover.close();
  }
}

const ENV = { DROVER_QUEUE_PREFIX: 'bench-workflow' };

function mean(list: readonly number[]): number {
  return list.reduce((sum, each) => sum + each, 0) / list.length;
}

function median(list: readonly number[]): number {
  return list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)] ?? Number.NaN;
}

/** Runs as one of the workers; prints a line when ready. */
export async function beWorker(services: Services): Promise<never> {
  const drover = await openDrover('pure', services, { env: ENV, stream: sleeps, isSecond: true });
  await drover.serve(50);
  process.stdout.write('serving\n');
  await once(process, 'SIGTERM');
  process.exit(0);
}

/**
 * Takes as long as the subtask says. The planner, which combines the results at the end, answers at once: the ideal covers
 * only the subtasks, and a model's time for the answer is not Drover's.
 */
const sleeps: StreamModel = async ({ messages, toolChoice }, { signal }) => {
  const base = { provider: 'offline', model: 'stub', usage: { ...NO_TOKENS, input: 300, output: 50 } };
  if (typeof toolChoice === 'object') {
    const use = { type: 'tool_use' as const, id: 'call_0', name: toolChoice.tool, input: { result: 'done' } };
    return { ...base, content: [use], stopReason: 'tool_use' };
  }
  const ms = Number(/take (\d+) ms/.exec(textOf(messages[0]?.content ?? []))?.[1] ?? 0);
  await sleep(ms, undefined, { signal });
  return { ...base, content: [{ type: 'text', text: 'done' }], stopReason: 'end_turn' };
};

/** Runs a workflow to its end; returns its duration by the database's clock. */
async function carryOut(
  { context, agentId }: BenchDrover,
  graph: readonly Node[],
  execution: Execution,
): Promise<{ id: string; ms: number }> {
  const tenantId = DEFAULT_TENANT_ID;
  const subtasks = graph.map(({ id, ms, dependencies }) => ({ id, dependencies, description: `take ${ms} ms` }));
  const { body: id } = await createWorkflow(
    context,
    {
      caller: {
        tenantId,
        workspaceId: DEFAULT_WORKSPACE_ID,
        boundWorkspaceId: undefined,
        keyId: DEFAULT_TENANT_ID,
        scopes: ['admin'],
        quotas: quotasOf({ planTier: 'standard', isDefault: true, settings: {} }),
        isOperator: true,
      },
      name: 'bench',
      agentId,
      input: { user_query: 'bench' },
      definition: { subtasks },
      settings: { on_subtask_failure: 'fail', execution, max_replans: 0 },
      idempotency: { tenantId, route: 'bench', body: null },
    },
    (row) => row.id,
  );
  for (;;) {
    const [row] = await context.db.withTenant(tenantId, (tx) =>
      tx.query<{ status: string; ms: number }>(
        'select status, extract(epoch from completed_at - created_at)::float8 * 1000 as ms from runs where id = $1',
        [id],
      ),
    );
    if (row?.status === 'failed') throw new Error('the workflow has failed');
    if (row?.status === 'completed') return { id, ms: row.ms };
    await sleep(20);
  }
}

/** Counts the workflow's own events, and the rows of all tables that grow with subtasks. */
async function rowsOf({ context }: BenchDrover, id: string): Promise<{ own: number; all: number }> {
  const [row] = await context.db.withTenant(DEFAULT_TENANT_ID, (tx) =>
    tx.query<{ own: number; all: number }>(
      `select (select count(*)::int from run_events where run_id = $1) as own,
         (select count(*)::int from run_log) + (select count(*)::int from messages) + (select count(*)::int from runs)
         + (select count(*)::int from turns) + (select count(*)::int from threads) + (select count(*)::int from tasks)
         + (select count(*)::int from checkpoints) + (select count(*)::int from reservations) as all`,
      [id],
    ),
  );
  return row ?? { own: 0, all: 0 };
}

/** The shortest possible time: of the longest path, or of all work divided among the slots, whichever is more. */
function idealMs(graph: readonly Node[], slots: number): number {
  const work = graph.reduce((sum, { ms }) => sum + ms, 0);
  return Math.max(work / slots, ...remainingPaths(graph.map((node) => ({ ...node, weight: node.ms }))).values());
}

function wideGraph(): Node[] {
  return Array.from({ length: LEVELS * WIDTH }, (_, index) => {
    const level = Math.floor(index / WIDTH);
    const place = index % WIDTH;
    const below = level === 0 ? [] : [place, (place + 1) % WIDTH].map((each) => `${level - 1}-${each}`);
    return { id: `${level}-${place}`, ms: TASK_MS, dependencies: below };
  });
}

/** Each subtask depends on up to three of the ten before it; durations have a long tail. */
function randomGraph(random: () => number, size: number): Node[] {
  return Array.from({ length: size }, (_, index) => {
    const count = Math.min(index, Math.floor(random() * 4));
    const from = Math.max(0, index - 10);
    const picks = Array.from({ length: count }, () => from + Math.floor(random() * (index - from)));
    const ms = Math.round(Math.exp(Math.log(MEAN_MS) - 0.18 + 0.6 * normal(random)));
    return { id: `t${index}`, ms, dependencies: [...new Set(picks)].map((each) => `t${each}`) };
  });
}

function normal(random: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

/** Generates the same numbers for the same seed (mulberry32). */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
