/** Runs a torture from beginning to end. */
import { randomBytes } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { createRetryingClient } from './client.ts';
import { awaitEnds, createAgent, MODEL, startRuns, type StartedRun } from './drive.ts';
import { startEffectServer, type EffectServer } from './effect-server.ts';
import { examine } from './examine.ts';
import { createWebhooks, startHookServer, type HookServer } from './hook-server.ts';
import { drawBoundary } from './partitions.ts';
import { injectFaults, type Injected } from './faults.ts';
import { startFleet, type Fleet } from './fleet.ts';
import { openProbe, type Probe } from './probe.ts';
import { openTestServices, type TestServices } from './test-services.ts';
import { planLessons, teach } from './memory.ts';
import { attend, planAskings, type StartedAsking } from './people.ts';
import { planRuns } from './plan.ts';
import { openServiceProxy, type ServiceProxy } from '../kit/service-proxy.ts';
import { createRandom } from './random.ts';
import { describeOutcome, violationsOf } from './report.ts';
import { makeSchedule, type Fault } from './schedule.ts';
import { planWorkflows, startWorkflows, type StartedWorkflow } from './workflows.ts';
import { planSessions, talk, type StartedSession } from './sessions.ts';
import { startScriptedModel, type ScriptedModel } from './scripted-model.ts';

export interface TortureOptions {
  mode: 'full' | 'postgres';
  databaseUrl: string | undefined;
  redisUrl: string | undefined;
  runs: number;
  seed: number;
  seconds: number;
  settleSeconds: number;
  workers: number;
  apis: number;
  combined: number;
  leaseMs: number;
  /** The largest clock error of a process in seconds, either way. */
  skewSeconds: number;
  /** Compiled programs of the previous release, which every second API and worker runs. */
  previous: string | undefined;
  planOnly: boolean;
  keepLogs: boolean;
}

interface Watcher {
  signal: AbortSignal;
  say: (line: string) => void;
}

/** Tortures a fleet and reports; returns whether every promise held. Leaves nothing behind but logs. */
export async function torture(options: TortureOptions, { signal, say }: Watcher): Promise<boolean> {
  const schedule = scheduleOf(options);
  say(`torture: seed ${options.seed}, ${options.runs} runs, ${schedule.length} faults in ${options.seconds} s`);
  if (options.planOnly) {
    for (const { atMs, kind, choice, point } of schedule)
      say(`${String(atMs).padStart(8)} ms  ${kind}  ${point?.name ?? choice}`);
    return true;
  }
  // Every request, fault and run listens to it.
  setMaxListeners(0, signal);
  const closers: (() => Promise<unknown>)[] = [];
  let clean = false;
  const closing = async () => {
    for (const close of closers.splice(0).toReversed()) await close();
  };
  try {
    const scene = await openScene(options, { closers, isClean: () => clean, say, signal });
    clean = await play(options, { ...scene, schedule, say, signal });
    return clean;
  } finally {
    await closing();
  }
}

function scheduleOf(options: TortureOptions): Fault[] {
  return makeSchedule(options.seed, {
    forMs: options.seconds * 1000,
    leaseMs: options.leaseMs,
    redis: options.mode === 'full',
    ownServices: options.databaseUrl === undefined,
    modelOutages: isOneBuild(options),
  });
}

/** The previous release survives less: runs of a thread on different clocks, outages, a tarpit; it has no sessions. */
const isOneBuild = ({ previous }: TortureOptions) => previous === undefined;

interface Scene {
  services: TestServices;
  tools: EffectServer;
  model: ScriptedModel;
  hooks: HookServer;
  databaseProxy: ServiceProxy;
  redisProxy: ServiceProxy | undefined;
  fleet: Fleet;
  probe: Probe;
  key: string;
}

interface Opening extends Watcher {
  closers: (() => Promise<unknown>)[];
  isClean: () => boolean;
}

async function openScene(options: TortureOptions, opening: Opening): Promise<Scene> {
  const { closers, signal } = opening;
  const services = await openTestServices(options);
  closers.push(async () => {
    const keepLogs = options.keepLogs || !opening.isClean();
    if (keepLogs) opening.say(`  logs: ${services.dir}`);
    await services.close({ keepLogs });
  });
  signal.throwIfAborted();
  const tools = await startEffectServer();
  closers.push(tools.close);
  const model = await startScriptedModel();
  closers.push(model.close);
  const hooks = await startHookServer();
  closers.push(hooks.close);
  const databaseProxy = await openServiceProxy(services.databaseUrl);
  closers.push(databaseProxy.close);
  const redisProxy = services.redisUrl === undefined ? undefined : await openServiceProxy(services.redisUrl);
  if (redisProxy) closers.push(redisProxy.close);
  const key = `torture-${randomBytes(16).toString('hex')}`;
  const env = {
    DROVER_API_KEY: key,
    DROVER_SECRET_KEY: key,
    DROVER_QUEUE_PREFIX: `torture-${process.pid}`,
    DROVER_LEASE_MS: String(options.leaseMs),
    // A busy machine with a short lease allows no more: drivers short of CPU time lose their leases to each other.
    DROVER_CONCURRENCY: '15',
    DROVER_EGRESS_ALLOW: '127.0.0.1',
    ANTHROPIC_BASE_URL: model.url,
    DROVER_EMBEDDING_MODEL: 'off',
    // Some conversations hold many megabytes.
    DROVER_CONTEXT_WINDOWS: 'anthropic=99999999',
    ANTHROPIC_API_KEY: 'unused',
  };
  const { apis, workers, combined, previous } = options;
  const throughProxies = { DATABASE_URL: databaseProxy.url, ...(redisProxy && { REDIS_URL: redisProxy.url }) };
  const skewMs = skewsOf(options);
  const fleet = await startFleet({
    apis,
    workers,
    combined,
    previous,
    env: { ...env, ...throughProxies },
    dir: services.dir,
    skewMs,
  });
  closers.push(fleet.close);
  const direct = {
    DATABASE_URL: services.databaseUrl,
    ...(services.redisUrl !== undefined && { REDIS_URL: services.redisUrl }),
  };
  const probe = await openProbe({ ...env, ...direct });
  closers.push(probe.close);
  return { services, tools, model, hooks, databaseProxy, redisProxy, fleet, probe, key };
}

/** The first process keeps the right time, so that at least one does. */
function skewsOf({ seed, skewSeconds, apis, workers, combined }: TortureOptions): (index: number) => number {
  const random = createRandom(seed, 'clocks');
  const skews = Array.from({ length: apis + combined + workers }, () => random.whole(-skewSeconds, skewSeconds) * 1000);
  return (index) => (index === 0 ? 0 : (skews[index] ?? 0));
}

interface Play extends Scene, Watcher {
  schedule: readonly Fault[];
}

// The last runs start while faults are still to come.
const STARTING_SHARE = 0.8;

async function play(options: TortureOptions, scene: Play): Promise<boolean> {
  const sinceMs = performance.now();
  const { fleet, tools, probe, signal } = scene;
  const client = createRetryingClient(fleet.urls, scene.key, signal);
  const agent = await createAgent(client, tools.url);
  const withinMs = options.seconds * 1000 * STARTING_SHARE;
  const oneBuild = isOneBuild(options);
  const { runs, leaseMs, seed } = options;
  const plan = planRuns(seed, { runs, withinMs, leaseMs, threads: oneBuild, hugeOutputs: oneBuild });
  const talks = oneBuild ? planSessions(seed, { runs, withinMs }) : [];
  const flows = oneBuild ? planWorkflows(seed, { runs, withinMs }) : [];
  if (oneBuild) await createWebhooks(client, scene.hooks);
  await drawBoundary(probe, Date.now() + withinMs / 2);
  const lessons = oneBuild ? planLessons(seed, { runs, withinMs }) : [];
  const started: StartedRun[] = [];
  const sessions: StartedSession[] = [];
  const workflows: StartedWorkflow[] = [];
  const askings: StartedAsking[] = [];
  const settleMs = options.settleSeconds * 1000;
  const asked = oneBuild ? planAskings(seed, { runs, withinMs }) : [];
  const [injected, taught] = await Promise.all([
    injectFaults({ ...scene, own: scene.services.own }, scene.schedule),
    oneBuild ? teach(client, { model: MODEL, plan: lessons, signal }) : undefined,
    startRuns(client, { agent, plan, started, probe, signal, patienceMs: settleMs }),
    talk(client, { agent, plan: talks, started: sessions, signal }),
    startWorkflows(client, { agent, plan: flows, started: workflows, signal }),
    attend(client, { toolsUrl: tools.url, plan: asked, started: askings, patienceMs: settleMs, signal }),
  ]);
  scene.say('  the faults are over; waiting for the runs to end');
  await awaitEnds(client, started, settleMs);
  const findings = await examine({
    client,
    probe,
    runs: started,
    sessions,
    workflows,
    askings,
    lessons: taught,
    settleMs,
    hooks: oneBuild ? scene.hooks : undefined,
    tools,
    model: scene.model,
    injected,
    leaseMs,
  });
  return conclude(options, scene, {
    findings,
    injected,
    apiRepeats: client.repeats(),
    elapsedMs: performance.now() - sinceMs,
  });
}

function conclude(
  options: TortureOptions,
  { fleet, say }: Play,
  rest: {
    findings: Awaited<ReturnType<typeof examine>>;
    injected: readonly Injected[];
    apiRepeats: number;
    elapsedMs: number;
  },
): boolean {
  const outcome = { ...rest, planned: options.runs, crashes: fleet.crashes() };
  const clean = [...violationsOf(outcome).values()].every((sentences) => sentences.length === 0);
  say(describeOutcome(outcome));
  say(`torture: seed ${options.seed}: ${clean ? 'every promise held' : 'PROMISES WERE BROKEN'}`);
  return clean;
}
