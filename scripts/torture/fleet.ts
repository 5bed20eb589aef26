/** The processes under torture: APIs, workers, and combined ones, each in a slot in which it is restarted after its death. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { answers, freePort, hasEnded, tailOf } from '../kit/child-process.ts';
import { addressOf, NODE_ARGS, programOf } from '../kit/programs.ts';
import type { KillPoint } from './kill-points.ts';
import { openWorkerLink, type WorkerLink } from './worker-link.ts';

interface FleetOptions {
  apis: number;
  workers: number;
  /** Processes with API and workers, as `npm start`. */
  combined: number;
  /** Compiled programs of the previous release, which every second API and worker runs. */
  previous?: string | undefined;
  /** The complete environment of each process. */
  env: Record<string, string>;
  /** The directory of the processes' logs. */
  dir: string;
  /** The clock error of the nth process, in ms. */
  skewMs: (index: number) => number;
}

export interface Slot {
  name: string;
  kind: KillPoint['kind'];
  /** Set while a fault affects it, such as a restart or a freeze. */
  busy: 'starting' | 'frozen' | 'doomed' | 'isolated' | undefined;
  /** A worker's own connection to the services. */
  link?: WorkerLink;
  pid: () => number;
  /** Sends SIGKILL, and waits for its end. */
  kill: () => Promise<void>;
  /** Kills it at the point; returns whether it reached that within the time. */
  killAt: (point: KillPoint, withinMs: number) => Promise<boolean>;
  /** Starts it and waits until it is ready; throws with the end of its log. */
  start: () => Promise<void>;
}

export interface Fleet {
  slots: readonly Slot[];
  /** URLs of all API processes, running or not. */
  urls: readonly string[];
  /** How often a ready process ended without being killed. */
  crashes: () => number;
  /** Kills every process and waits for their ends. Nothing can be started any more. */
  close: () => Promise<void>;
}

const READY_MS = 180_000;

/** Starts all processes, and resolves when they are ready. */
export async function startFleet(options: FleetOptions): Promise<Fleet> {
  const state = newState();
  const { children, ready, doomed } = state;
  const killAll = () => {
    for (const child of children) child.kill('SIGKILL');
  };
  process.once('exit', killAll);
  const launch = createLaunch(options, state);
  const urls: string[] = [];
  const slots: Slot[] = [];
  const links: WorkerLink[] = [];
  const addServer = async (kind: 'api' | 'combined', index: number, path: string) => {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const skewMs = options.skewMs(slots.length);
    const build = index % 2 === 1 ? options.previous : undefined;
    const start = (name: string) => launch(name, path, { env: { PORT: String(port) }, skewMs, build });
    const parts = { dir: options.dir, start, isReady: () => answers(url, '/healthz'), ready, doomed };
    urls.push(url);
    slots.push(makeSlot(`${kind}-${index + 1}`, kind, parts));
  };
  for (let index = 0; index < options.apis; index++) await addServer('api', index, 'api/main');
  for (let index = 0; index < options.combined; index++) await addServer('combined', index, 'scripts/start');
  for (let index = 0; index < options.workers; index++) {
    const skewMs = options.skewMs(slots.length);
    const build = index % 2 === 1 ? options.previous : undefined;
    const link = await openWorkerLink(options.env);
    links.push(link);
    const start = (name: string) =>
      launch(name, 'workers/main', { env: { ANTHROPIC_API_KEY: name, ...link.env }, skewMs, build });
    slots.push({ ...makeSlot(`worker-${index + 1}`, 'worker', { dir: options.dir, start, ready, doomed }), link });
  }
  const fleet: Fleet = {
    slots,
    urls,
    crashes: () => state.crashes,
    async close() {
      state.closed = true;
      const ends = [...children].map((child) => once(child, 'exit'));
      killAll();
      await Promise.all(ends);
      await Promise.all(links.map((link) => link.cut()));
      process.off('exit', killAll);
    },
  };
  try {
    await runToEnd(launch('migrate', 'scripts/migrate', { env: {}, skewMs: 0 }), join(options.dir, 'migrate.log'));
    await Promise.all(slots.map((slot) => slot.start()));
    return fleet;
  } catch (error) {
    await fleet.close();
    throw error;
  }
}

interface FleetState {
  closed: boolean;
  crashes: number;
  children: Set<ChildProcess>;
  ready: WeakSet<ChildProcess>;
  /** Processes that were told to die. */
  doomed: WeakSet<ChildProcess>;
}

const newState = (): FleetState => ({
  closed: false,
  crashes: 0,
  children: new Set(),
  ready: new WeakSet(),
  doomed: new WeakSet(),
});

interface LaunchOptions {
  env: Record<string, string>;
  skewMs: number;
  /** Compiled programs; by default the torture's own. */
  build?: string | undefined;
}

type Launch = (name: string, path: string, how: LaunchOptions) => ChildProcess;

function createLaunch(options: FleetOptions, state: FleetState): Launch {
  const { children, ready, doomed } = state;
  return (name, path, { env, skewMs, build }) => {
    if (state.closed) throw new Error('the fleet is closed');
    const log = openSync(join(options.dir, `${name}.log`), 'a');
    const injector = ['--import', `${addressOf('scripts/torture/fault-injector')}?skew=${skewMs}`];
    const program = build === undefined ? programOf(path) : join(build, `${path}.js`);
    const child = spawn(process.execPath, [...NODE_ARGS, ...injector, program], {
      env: { ...options.env, ...env },
      stdio: ['ignore', log, log, 'ipc'],
    });
    closeSync(log);
    children.add(child);
    child.once('exit', () => {
      children.delete(child);
      const isMeant = child.killed || (doomed.has(child) && child.signalCode === 'SIGKILL');
      if (!isMeant && !state.closed && ready.has(child)) state.crashes++;
    });
    return child;
  };
}

interface SlotParts {
  dir: string;
  start: (name: string) => ChildProcess;
  /** If absent, the log shows when it is ready. */
  isReady?: () => Promise<boolean>;
  ready: WeakSet<ChildProcess>;
  /** Processes that were told to die. */
  doomed: WeakSet<ChildProcess>;
}

function makeSlot(name: string, kind: Slot['kind'], parts: SlotParts): Slot {
  const log = join(parts.dir, `${name}.log`);
  let child: ChildProcess | undefined;
  const slot: Slot = {
    name,
    kind,
    busy: undefined,
    pid: () => child?.pid ?? 0,
    async kill() {
      if (!child || hasEnded(child)) return;
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    },
    async killAt(point, withinMs) {
      if (!child?.connected) return false;
      const doomed = child;
      parts.doomed.add(doomed);
      tell(doomed, { dieAt: point });
      const ended = await endsWithin(doomed, withinMs);
      if (!ended) tell(doomed, {});
      return ended;
    },
    async start() {
      const started = parts.start(name);
      child = started;
      const isReady = parts.isReady ?? (async () => isStarted(log, started.pid ?? 0));
      const endsAt = Date.now() + READY_MS;
      while (!(await isReady())) {
        if (hasEnded(started)) throw new Error(`${name} did not start:\n${tailOf(log)}`);
        if (Date.now() > endsAt) throw new Error(`${name} was not ready within ${READY_MS / 1000} s:\n${tailOf(log)}`);
        await delay(50);
      }
      parts.ready.add(started);
    },
  };
  return slot;
}

/** A process that has just ended gets no message: without the callback that would be an unhandled error. */
function tell(child: ChildProcess, message: { dieAt?: KillPoint }): void {
  if (child.connected) child.send(message, () => undefined);
}

async function endsWithin(child: ChildProcess, withinMs: number): Promise<boolean> {
  if (hasEnded(child)) return true;
  const limit = AbortSignal.timeout(withinMs);
  await once(child, 'exit', { signal: limit }).catch(() => undefined);
  return hasEnded(child);
}

async function runToEnd(child: ChildProcess, log: string): Promise<void> {
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`the migration failed:\n${tailOf(log)}`);
}

/** A worker takes jobs during its first reconciliation, which a backlog can make long. */
function isStarted(log: string, pid: number): boolean {
  const lines = readFileSync(log, 'utf8').split('\n');
  return lines.some((line) => line.includes(`"pid":${pid},`) && /"msg":"(workers started|job)"/.test(line));
}
