/**
 * `npm run bench`: the cost of durability. Each part has a fresh process and its own database. Steps are given as ratios to a
 * baseline of the same round. See docs/benchmarks.md.
 */
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import pg from 'pg';
import { beginDataDir } from '../db/embedded-image.ts';
import { runOnce } from '../modules/platform/run-once.ts';
import { figureTable, type Figure } from './figures.ts';
import { benchServices, type Services } from './services.ts';
import { stepTable, VARIANTS } from './step-table.ts';
import type { Measured } from './work.ts';

const TIMING = { warmUpRuns: 1000, runs: 300, concurrency: 20, latencyRuns: 30 };
const SELF = fileURLToPath(import.meta.url);

type Measure = (services: Services) => Promise<Figure[]>;

/** Imported on demand: otherwise a worker's memory would include the whole API. */
const PARTS: Record<string, () => Promise<Measure>> = {
  'long-run': async () => (await import('./long-run.ts')).measureLongRun,
  'long-conversation': async () => (await import('./long-conversation.ts')).measureLongConversation,
  'long-thread': async () => (await import('./long-thread.ts')).measureLongThread,
  deployed: async () => (await import('./deployed.ts')).measureDeployed,
  api: async () => (await import('./api.ts')).measureApi,
  streams: async () => (await import('./streams.ts')).measureStreams,
  live: async () => (await import('./live.ts')).measureLive,
  waiting: async () => (await import('./waiting.ts')).measureWaiting,
  partitions: async () => (await import('./partitions.ts')).measurePartitions,
  tenants: async () => (await import('./tenants.ts')).measureTenants,
  memory: async () => (await import('./memory.ts')).measureMemory,
  dashboard: async () => (await import('./dashboard.ts')).measureDashboard,
  dags: async () => (await import('./workflows.ts')).measureDags,
  async workflow() {
    const { measureWorkflow } = await import('./workflows.ts');
    return (services) =>
      measureWorkflow(services, () => spawn(process.execPath, [SELF, 'worker', JSON.stringify(services)]));
  },
  async recovery() {
    const { measureRecovery } = await import('./recovery.ts');
    return (services) =>
      measureRecovery(services, () => spawn(process.execPath, [SELF, 'victim', JSON.stringify(services)]));
  },
};

/** Run only when named, since they need external data or tools. */
const BY_HAND: typeof PARTS = {
  'memory-recall': async () => (await import('./memory-recall.ts')).measureMemoryRecall,
  year: async () => (await import('./year.ts')).measureYear,
};

const USAGE = `usage: npm run bench [-- --only NAME] [--rounds N]
NAME: steps (the default of ${VARIANTS.length - 1} variants and their baseline), ${Object.keys({ ...PARTS, ...BY_HAND }).join(', ')}
`;

await runOnce(async () => {
  const [mode, what] = process.argv.slice(2);
  if (mode === 'victim') return (await import('./recovery.ts')).beVictim(JSON.parse(what ?? '') as Services);
  if (mode === 'worker') return (await import('./workflows.ts')).beWorker(JSON.parse(what ?? '') as Services);
  if (mode === 'measure') {
    process.stdout.write(`${JSON.stringify(await onOwnDatabase(what ?? ''))}\n`);
    process.exit(0);
  }
  const { values } = parseArgs({
    options: {
      only: { type: 'string' },
      rounds: { type: 'string', default: '3' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) return void process.stdout.write(USAGE);
  const wanted = values.only === undefined ? ['steps', ...Object.keys(PARTS)] : [values.only];
  if (!wanted.every((name) => name === 'steps' || name in PARTS || name in BY_HAND))
    throw new Error(`There is no benchmark "${values.only}".\n${USAGE}`);
  if (wanted.includes('steps')) process.stdout.write(stepTable(await measureSteps(Number(values.rounds))));
  const figures: Figure[] = [];
  for (const name of wanted.filter((each) => each !== 'steps')) {
    figures.push(...((await inFreshProcess(name)) as Figure[]));
    process.stderr.write(`${name} done\n`);
  }
  if (figures.length > 0) process.stdout.write(`\n${figureTable(figures)}`);
});

async function measureSteps(rounds: number): Promise<Measured[][]> {
  await makeImage();
  const measured: Measured[][] = [];
  for (let round = 1; round <= rounds; round++) {
    const row: Measured[] = [];
    for (const name of VARIANTS) row.push((await inFreshProcess(name)) as Measured);
    measured.push(row);
    process.stderr.write(`round ${round} of ${rounds} done\n`);
  }
  return measured;
}

/** What the first start of an installation leaves: embedded mode is measured as it is at all others, which do without `initdb`. */
async function makeImage(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'drover-bench-'));
  try {
    await beginDataDir(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function onOwnDatabase(name: string): Promise<Measured | Figure[]> {
  const services = benchServices();
  const database = `bench_${name.replace('-', '_')}_${process.pid}`;
  await onAdmin(services.databaseUrl, `create database ${database}`);
  const url = new URL(services.databaseUrl);
  url.pathname = `/${database}`;
  try {
    return await measureOne(name, { databaseUrl: url.href, redisUrl: services.redisUrl });
  } finally {
    await onAdmin(services.databaseUrl, `drop database if exists ${database} with (force)`);
  }
}

async function measureOne(name: string, services: Services): Promise<Measured | Figure[]> {
  const part = PARTS[name] ?? BY_HAND[name];
  if (part) return (await part())(services);
  if (name === 'baseline') return (await import('./baseline.ts')).measureBaseline(services, TIMING);
  const variant = VARIANTS.find((each) => each === name);
  if (!variant || variant === 'baseline') throw new Error(USAGE);
  return (await import('./drover.ts')).measureDrover(variant, services, TIMING);
}

async function onAdmin(databaseUrl: string, statement: string): Promise<void> {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  await client.query(statement);
  await client.end();
}

/** Runs a part with the Procfile's worker flags. */
async function inFreshProcess(name: string): Promise<unknown> {
  const flags = /^worker: node (.*) dist/m.exec(readFileSync('Procfile', 'utf8'))?.[1]?.split(' ') ?? [];
  const measuring = promisify(execFile)(process.execPath, [...flags, SELF, 'measure', name], {
    timeout: name in BY_HAND ? 3_600_000 : 300_000,
  });
  measuring.child.stderr?.pipe(process.stderr);
  const { stdout } = await measuring;
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
}
