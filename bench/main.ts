/** `npm run bench`: each variant and the baseline in fresh processes on the same services, as ratios to the baseline. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import { runOnce } from '../services/run-process.ts';
import { measureBaseline } from './baseline.ts';
import { measureDrover, type Variant } from './drover.ts';
import { benchServices } from './services.ts';
import type { Measured } from './work.ts';

const VARIANTS = ['baseline', 'cheap', 'committed', 'queued'] as const;
const GOALS: Record<Variant, { throughput: number; latency: number }> = {
  cheap: { throughput: 1, latency: 0.6 },
  committed: { throughput: 0.85, latency: 0.75 },
  queued: { throughput: 0.35, latency: 1.7 },
};
const TIMING = { runs: 300, concurrency: 20, latencyRuns: 30 };

await runOnce(async () => {
  const variant = VARIANTS.find((name) => name === process.argv[2]);
  if (variant) {
    process.stdout.write(`${JSON.stringify(await measureOne(variant))}\n`);
    process.exit(0);
  }
  const rounds = Number(process.argv[2] ?? 3);
  const measured: Measured[][] = [];
  for (let round = 1; round <= rounds; round++) {
    const row: Measured[] = [];
    for (const name of VARIANTS) row.push(await inFreshProcess(name));
    measured.push(row);
    process.stderr.write(`round ${round} of ${rounds} done\n`);
  }
  process.stdout.write(table(measured));
});

async function measureOne(variant: (typeof VARIANTS)[number]): Promise<Measured> {
  const services = benchServices();
  const name = `bench_${variant}_${process.pid}`;
  await onAdmin(services.databaseUrl, `create database ${name}`);
  const url = new URL(services.databaseUrl);
  url.pathname = `/${name}`;
  const own = { databaseUrl: url.href, redisUrl: services.redisUrl };
  try {
    return variant === 'baseline' ? await measureBaseline(own, TIMING) : await measureDrover(variant, own, TIMING);
  } finally {
    await onAdmin(services.databaseUrl, `drop database if exists ${name} with (force)`);
  }
}

async function onAdmin(databaseUrl: string, statement: string): Promise<void> {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  await client.query(statement);
  await client.end();
}

async function inFreshProcess(name: string): Promise<Measured> {
  const args = ['--import', 'tsx', fileURLToPath(import.meta.url), name];
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 300_000 });
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Measured;
}

function table(rounds: readonly Measured[][]): string {
  const lines = ['variant     x throughput (goal)   x latency (goal)   runs/s   p50 ms   p95 ms   WAL KB/run   RSS MB'];
  for (const [index, name] of VARIANTS.entries()) {
    const own = rounds.map((row) => row[index]).filter((item) => item !== undefined);
    const base = rounds.map((row) => row[0]).filter((item) => item !== undefined);
    const ratio = (of: (item: Measured) => number) => median(own.map((item, at) => of(item) / of(base[at] ?? item)));
    const goal = name === 'baseline' ? undefined : GOALS[name];
    const cell = (value: number, digits: number, width: number) => value.toFixed(digits).padStart(width);
    lines.push(
      name.padEnd(10) +
        cell(
          ratio((item) => item.runsPerSecond),
          2,
          9,
        ) +
        (goal ? ` (>= ${goal.throughput.toFixed(2)})` : '').padEnd(14) +
        cell(
          ratio((item) => item.p50Ms),
          2,
          9,
        ) +
        (goal ? ` (<= ${goal.latency.toFixed(2)})` : '').padEnd(11) +
        cell(median(own.map((item) => item.runsPerSecond)), 0, 7) +
        cell(median(own.map((item) => item.p50Ms)), 1, 9) +
        cell(median(own.map((item) => item.p95Ms)), 1, 9) +
        cell(median(own.map((item) => item.walKbPerRun)), 1, 13) +
        cell(median(own.map((item) => item.rssMb)), 0, 9),
    );
  }
  return `${lines.join('\n')}\n`;
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
