/**
 * The work of every variant: 6 model calls and 5 tool calls that return at once, each with about 1 KB of incompressible text.
 * Model call k (0–4) asks for acc + (k + 1); call 5 answers 1 + 2 + 3 + 4 + 5 = 15.
 */
import { existsSync, readFileSync } from 'node:fs';
import { costOfEach, type Costs, type Meter } from './costs.ts';

export const TOOL_CALLS = 5;
export const STEPS = 2 * TOOL_CALLS + 1;
const EXPECTED = 15;

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const PADS = makePads();
let next = 0;

/** 900 incompressible characters. */
export function pad(): string {
  return PADS[next++ % PADS.length] ?? '';
}

function makePads(): string[] {
  let seed = 12_345;
  const random = () => {
    seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff;
    return seed / 0x7fffffff;
  };
  const text = () => Array.from({ length: 900 }, () => ALPHABET[Math.floor(random() * 64)]).join('');
  return Array.from({ length: 97 }, text);
}

export interface Timing {
  /** Runs before measuring, a fifth of them one at a time: V8 compiles programs as they run, and a worker lives for days. */
  warmUpRuns: number;
  runs: number;
  concurrency: number;
  latencyRuns: number;
}

export interface Measured {
  name: string;
  runsPerSecond: number;
  p50Ms: number;
  p95Ms: number;
  rssMb: number;
  /** Per run, with concurrent runs. */
  costs: Costs;
}

/** Measures latency with single runs, then throughput with concurrent ones. `run` returns the result of one run. */
export async function measure(
  name: string,
  timing: Timing,
  system: { run: () => Promise<number>; meter: Meter },
): Promise<Measured> {
  const once = async () => {
    const result = await system.run();
    if (result !== EXPECTED) throw new Error(`${name} answered ${result} instead of ${EXPECTED}`);
  };
  const alone = Math.round(timing.warmUpRuns / 5);
  await many(timing.warmUpRuns - alone, timing.concurrency, once);
  await many(alone, 1, once);
  const latencies: number[] = [];
  for (let i = 0; i < timing.latencyRuns; i++) {
    const startedMs = performance.now();
    await once();
    latencies.push(performance.now() - startedMs);
  }
  const before = await system.meter.read();
  const startedMs = performance.now();
  await many(timing.runs, timing.concurrency, once);
  const seconds = (performance.now() - startedMs) / 1000;
  const after = await system.meter.read();
  return {
    name,
    runsPerSecond: timing.runs / seconds,
    p50Ms: quantile(latencies, 0.5),
    p95Ms: quantile(latencies, 0.95),
    rssMb: peakRssMb(),
    costs: costOfEach(before, after, timing.runs),
  };
}

/** The most memory that this process has had. Linux counts what its parent had at the start in `maxRSS`, not in `VmHWM`. */
function peakRssMb(): number {
  const [, peak] = existsSync(STATUS) ? (/^VmHWM:\s+(\d+) kB/m.exec(readFileSync(STATUS, 'utf8')) ?? []) : [];
  return (peak === undefined ? process.resourceUsage().maxRSS : Number(peak)) / 1024;
}

const STATUS = '/proc/self/status';

/** Calls `work` `count` times, at this concurrency. */
export async function many(count: number, concurrency: number, work: () => Promise<void>): Promise<void> {
  let left = count;
  const lane = async () => {
    while (left-- > 0) await work();
  };
  await Promise.all(Array.from({ length: concurrency }, lane));
}

/** The quantile of the values: `share` of them do not exceed it. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}
