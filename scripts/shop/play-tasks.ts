/** Plays the shop's tasks on a fleet whose workers are killed repeatedly, and compares the databases with references. */
import { randomBytes } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { createRetryingClient, type RetryingClient } from '../torture/client.ts';
import { startFleet, type Fleet } from '../torture/fleet.ts';
import { startScriptedModel } from '../torture/scripted-model.ts';
import { openTestServices } from '../torture/test-services.ts';
import { startShopServer } from './shop-server.ts';
import { Refusal, openShop, type Changes, type ShopData } from './shop.ts';
import type { Task } from './tau2.ts';
import { SHOP_TOOLS } from './tools.ts';

interface Playing {
  data: ShopData;
  tasks: readonly Task[];
  databaseUrl: string | undefined;
  redisUrl: string | undefined;
  mode: 'full' | 'postgres';
  workers: number;
  /** Time between two kills. */
  killEveryMs: number;
  /** The most kills. */
  mostKills: number;
  /** How long the model and each tool take. */
  stepMs: number;
  settleMs: number;
  signal: AbortSignal;
  say: (line: string) => void;
}

interface Played {
  /** Tasks whose run did not complete, or whose database differs from the reference. */
  wrong: { id: string; status: string; why: 'end' | 'database' }[];
  kills: number;
  seconds: number;
  actions: number;
  /** Changes that the tasks request, changes made, and repeated requests. */
  wanted: number;
  changes: number;
  repeats: number;
}

/** Long enough that processes short of CPU time do not lose their leases to each other. */
const LEASE_MS = 10_000;
const POLL_MS = 500;
const ENDED = ['completed', 'failed', 'cancelled'];

/** Plays every task in its own run, all at the same time. */
export async function playTasks(playing: Playing): Promise<Played> {
  const closers: (() => Promise<unknown>)[] = [];
  // Every task sends requests at the same time.
  setMaxListeners(0, playing.signal);
  try {
    const services = await openTestServices(playing);
    closers.push(() => services.close({ keepLogs: false }));
    const model = await startScriptedModel();
    closers.push(model.close);
    const shops = await startShopServer(playing.data, playing.stepMs);
    closers.push(shops.close);
    const key = `shop-${randomBytes(16).toString('hex')}`;
    const fleet = await startFleet({
      apis: 1,
      workers: playing.workers,
      combined: 0,
      dir: services.dir,
      skewMs: () => 0,
      env: envOf({ key, modelUrl: model.url, databaseUrl: services.databaseUrl, redisUrl: services.redisUrl }),
    });
    closers.push(fleet.close);
    const client = createRetryingClient(fleet.urls, key, playing.signal);
    const sinceMs = performance.now();
    const runs = await startRuns(client, { ...playing, toolsUrl: shops.url });
    playing.say(`${runs.length} runs have begun; workers are killed from now on`);
    const { kills, statuses } = await killUntilEnded(playing, { fleet, client, runs });
    const seconds = (performance.now() - sinceMs) / 1000;
    const wrong = playing.tasks.flatMap((task, index): Played['wrong'] => {
      const status = statuses[index] ?? 'unknown';
      const changes = shops.shopOf(runs[index] ?? '')?.changes ?? openShop(playing.data).changes;
      if (status !== 'completed') return [{ id: task.id, status, why: 'end' }];
      return isDeepStrictEqual(changes, referenceOf(playing.data, task))
        ? []
        : [{ id: task.id, status, why: 'database' }];
    });
    const actions = playing.tasks.flatMap((task) => task.actions);
    const writes = new Set(SHOP_TOOLS.filter(({ reads }) => !reads).map(({ name }) => name));
    const wanted = actions.filter(({ name }) => writes.has(name)).length;
    const { changes, repeats } = shops.counts;
    return { wrong, kills, seconds, actions: actions.length, wanted, changes, repeats };
  } finally {
    for (const close of closers.toReversed()) await close();
  }
}

/** A task's changes without faults: its actions are run one by one in this process. */
export function referenceOf(data: ShopData, { actions }: Task): Changes {
  const shop = openShop(data);
  for (const { name, arguments: args } of actions) {
    try {
      SHOP_TOOLS.find((tool) => tool.name === name)?.run(shop, args);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
    }
  }
  return JSON.parse(JSON.stringify(shop.changes)) as Changes;
}

interface Place {
  key: string;
  modelUrl: string;
  databaseUrl: string;
  redisUrl: string | undefined;
}

function envOf({ key, modelUrl, databaseUrl, redisUrl }: Place): Record<string, string> {
  return {
    DROVER_API_KEY: key,
    DROVER_SECRET_KEY: key,
    DROVER_QUEUE_PREFIX: key,
    DROVER_LEASE_MS: String(LEASE_MS),
    DROVER_EGRESS_ALLOW: '127.0.0.1',
    DATABASE_URL: databaseUrl,
    ...(redisUrl !== undefined && { REDIS_URL: redisUrl }),
    ANTHROPIC_BASE_URL: modelUrl,
    ANTHROPIC_API_KEY: 'unused',
  };
}

async function startRuns(client: RetryingClient, playing: Playing & { toolsUrl: string }): Promise<string[]> {
  for (const { name, takes, reads } of SHOP_TOOLS) {
    const typeOf = (argument: string) =>
      argument.endsWith('_ids') ? { type: 'array', items: { type: 'string' } } : { type: 'string' };
    const tool = {
      name,
      description: name.replaceAll('_', ' '),
      input_schema: {
        type: 'object',
        properties: Object.fromEntries(takes.map((argument) => [argument, typeOf(argument)])),
        required: takes,
      },
      transport: { type: 'http', endpoint: `${playing.toolsUrl}/${name}` },
      execution: { timeout_ms: 20_000, retry_config: { max_retries: 6, backoff_ms: 100 } },
      ...(reads ? { risk_level: 'READ_ONLY' } : { annotations: { idempotentHint: true } }),
    };
    await client.post('/v1/tools', tool, `tool-${name}`);
  }
  const agent = {
    name: 'shop',
    tools: SHOP_TOOLS.map(({ name }) => name),
    llm_config: { default_model: 'anthropic/claude-haiku-4-5' },
    execution_config: { max_turns: 100 },
  };
  const { agent_id } = await client.post<{ agent_id: string }>('/v1/agents', agent, 'agent');
  const starts = playing.tasks.map(async (task) => {
    const body = { input: { message: scriptOf(task, playing.stepMs) } };
    return (await client.post<{ run_id: string }>(`/v1/agents/${agent_id}/runs`, body, `task-${task.id}`)).run_id;
  });
  return Promise.all(starts);
}

/** The message is a script for the model's calls. */
function scriptOf({ id, actions }: Task, thinkMs: number): string {
  const steps = actions.map(({ name, arguments: input }) => ({ thinkMs, calls: [{ tool: name, input }] }));
  return JSON.stringify({ label: `task-${id}`, steps });
}

interface Running {
  fleet: Fleet;
  client: RetryingClient;
  runs: readonly string[];
}

/** Kills the workers in turn, restarting each at once, until every run has ended or the time is up. */
async function killUntilEnded(
  { killEveryMs, mostKills, settleMs, signal }: Playing,
  running: Running,
): Promise<{ kills: number; statuses: string[] }> {
  const workers = running.fleet.slots.filter(({ kind }) => kind === 'worker');
  const endsAtMs = performance.now() + settleMs;
  const over = new AbortController();
  let statuses = running.runs.map(() => '');
  let kills = 0;
  const killing = (async () => {
    while (kills < mostKills && !over.signal.aborted) {
      await delay(killEveryMs, undefined, { signal: AbortSignal.any([signal, over.signal]) }).catch(ignore);
      const victim = workers[kills % workers.length];
      if (over.signal.aborted || signal.aborted || !victim) return;
      kills += 1;
      await victim.kill();
      await victim.start();
    }
  })();
  try {
    while (performance.now() < endsAtMs && statuses.some((status) => !ENDED.includes(status))) {
      await delay(POLL_MS, undefined, { signal });
      statuses = await readStatuses(running, statuses);
    }
  } finally {
    over.abort();
    await killing;
  }
  return { kills, statuses };
}

/** The promise's owner handles the error. */
const ignore = () => undefined;

/** The runs' statuses; ended runs are not read again. */
async function readStatuses({ client, runs }: Running, known: readonly string[]): Promise<string[]> {
  const statuses: string[] = [];
  for (const [index, run] of runs.entries()) {
    const before = known[index] ?? '';
    statuses.push(ENDED.includes(before) ? before : (await client.get<{ status: string }>(`/v1/runs/${run}`)).status);
  }
  return statuses;
}
