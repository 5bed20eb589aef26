/** The table of steps: for each variant, medians over the rounds; ratios are to the same round's baseline. */
import type { Variant } from './drover.ts';
import { cpuMs } from './costs.ts';
import { quantile, STEPS, type Measured } from './work.ts';

export const VARIANTS = ['baseline', 'pure', 'committed', 'queued', 'embedded'] as const;

const GOALS: Record<Variant, { throughput: number; latency?: number }> = {
  pure: { throughput: 1, latency: 0.85 },
  committed: { throughput: 0.85, latency: 0.85 },
  queued: { throughput: 0.55, latency: 1.6 },
  embedded: { throughput: 0.1 },
};
const WAL_GOAL_KB = 35;
const RSS_GOAL_MB = 180;

interface Column {
  head: string;
  /** Computed from a variant's measurement and the same round's baseline. */
  of: (own: Measured, base: Measured) => number;
  digits: number;
  goal?: (variant: Variant) => string | undefined;
  /** Measured at servers, which embedded mode lacks. */
  ofServers?: true;
}

const COLUMNS: readonly Column[] = [
  {
    head: 'x throughput',
    of: (own, base) => own.runsPerSecond / base.runsPerSecond,
    digits: 2,
    goal: (variant) => `>= ${GOALS[variant].throughput}`,
  },
  {
    head: 'x latency',
    of: (own, base) => own.p50Ms / base.p50Ms,
    digits: 2,
    goal: (variant) => {
      const { latency } = GOALS[variant];
      return latency === undefined ? undefined : `<= ${latency}`;
    },
  },
  { head: 'x CPU', of: (own, base) => cpuMs(own.costs) / cpuMs(base.costs), digits: 2 },
  { head: 'runs/s', of: (own) => own.runsPerSecond, digits: 0 },
  { head: 'p50 ms', of: (own) => own.p50Ms, digits: 1 },
  { head: 'p95 ms', of: (own) => own.p95Ms, digits: 1 },
  { head: 'CPU ms: node', of: (own) => own.costs.nodeMs, digits: 1 },
  { head: 'Postgres', of: (own) => own.costs.postgresMs, digits: 1, ofServers: true },
  { head: 'Redis', of: (own) => own.costs.redisMs, digits: 1, ofServers: true },
  { head: 'WAL KB', of: (own) => own.costs.walKb, digits: 1, goal: () => `<= ${WAL_GOAL_KB}`, ofServers: true },
  { head: 'rows', of: (own) => own.costs.rows, digits: 0, ofServers: true },
  { head: 'commits a step', of: (own) => own.costs.transactions / STEPS, digits: 2, ofServers: true },
  { head: 'statements a step', of: (own) => own.costs.statements / STEPS, digits: 2, ofServers: true },
  { head: 'RSS MB', of: (own) => own.rssMb, digits: 0, goal: () => `<= ${RSS_GOAL_MB}` },
];

/** CPU, WAL and rows are per run. `rounds` has the measurements of each round, in the order of the variants. */
export function stepTable(rounds: readonly Measured[][]): string {
  const lines = [['', ...VARIANTS], ...COLUMNS.map((column) => [column.head, ...cells(column, rounds)])];
  const widths = VARIANTS.map((_, index) => Math.max(...lines.map((line) => line[index + 1]?.length ?? 0)));
  return lines
    .map(
      ([head = '', ...row]) => head.padEnd(18) + row.map((cell, at) => cell.padStart((widths[at] ?? 0) + 3)).join(''),
    )
    .map((line) => `${line}\n`)
    .join('');
}

function cells({ of, digits, goal, ofServers }: Column, rounds: readonly Measured[][]): string[] {
  return VARIANTS.map((name, index) => {
    if (name === 'embedded' && ofServers) return '-';
    const values = rounds.flatMap((round) => {
      const [base] = round;
      const own = round[index];
      return base && own ? [of(own, base)] : [];
    });
    const value = quantile(values, 0.5).toFixed(digits);
    const wanted = name === 'baseline' ? undefined : goal?.(name);
    return wanted === undefined ? value : `${value} (${wanted})`;
  });
}
