/** The faults of a torture, from its seed: kind, time and target. */
import { KILL_POINTS, type KillPoint } from './kill-points.ts';
import { createRandom, type Random } from './random.ts';

export const FAULT_KINDS = [
  'kill worker',
  'kill api',
  'kill combined',
  'kill worker at a point',
  'kill api at a point',
  'kill combined at a point',
  'freeze worker',
  'freeze combined',
  'isolate worker',
  'model outage',
  'duplicate jobs',
  'cut database',
  'cut redis',
  'slow database',
  'dump database',
  'restart postgres',
  'restart redis',
  'flush redis',
] as const;
type FaultKind = (typeof FAULT_KINDS)[number];

export interface Fault {
  kind: FaultKind;
  atMs: number;
  /** How long a freeze, a cut, an outage or slowness lasts, or how long to wait for a kill point. */
  forMs: number;
  /** Selects among the processes or runs present at that time. */
  choice: number;
  /** The point at which the process dies. */
  point?: KillPoint;
}

interface ScheduleOptions {
  forMs: number;
  leaseMs: number;
  /** Whether there is a Redis to break. */
  redis: boolean;
  /** Whether services may be restarted or emptied: only those started by the torture. */
  ownServices: boolean;
  /** Whether the fleet survives outages of a model's provider. */
  modelOutages: boolean;
}

const FIRST_MS = 1500;
const GAP_MS = [700, 2600] as const;
const POINT_MS = 5000;

const MORE_OFTEN: readonly FaultKind[] = [
  'kill worker',
  'kill worker',
  'duplicate jobs',
  'kill worker at a point',
  'kill worker at a point',
];

/** Each kind comes once per shuffled round, killed workers and duplicates more often. Kill points do the same. */
export function makeSchedule(seed: number, options: ScheduleOptions): Fault[] {
  const random = createRandom(seed, 'faults');
  const kinds = possibleKinds(options);
  const faults: Fault[] = [];
  let round: FaultKind[] = [];
  const points = {
    worker: pointsOf(seed, 'worker'),
    api: pointsOf(seed, 'api'),
    combined: pointsOf(seed, 'combined'),
  };
  for (let atMs = FIRST_MS; atMs < options.forMs; atMs += random.whole(...GAP_MS)) {
    if (round.length === 0) round = random.shuffle([...kinds, ...MORE_OFTEN]);
    const kind = round.pop() ?? 'kill worker';
    const fault = { kind, atMs, forMs: durationOf(kind, random, options.leaseMs), choice: random.whole(0, 999_999) };
    const point = kind.endsWith('at a point') ? points[processOf(kind)]() : undefined;
    faults.push({ ...fault, ...(point && { point }) });
  }
  return faults;
}

/** The kind of process that a fault affects. */
export function processOf(kind: FaultKind): KillPoint['kind'] {
  if (kind.includes('combined')) return 'combined';
  return kind.includes('api') ? 'api' : 'worker';
}

function possibleKinds({ redis, ownServices, modelOutages }: ScheduleOptions): FaultKind[] {
  return FAULT_KINDS.filter((kind) => {
    if (kind === 'model outage') return modelOutages;
    if (kind.endsWith('redis') && !redis) return false;
    return ownServices || !/^(restart|flush)/.test(kind);
  });
}

/** One point after the other, in shuffled rounds. */
function pointsOf(seed: number, kind: KillPoint['kind']): () => KillPoint | undefined {
  const random = createRandom(seed, `points of ${kind}`);
  let round: KillPoint[] = [];
  return () => {
    if (round.length === 0) round = random.shuffle(KILL_POINTS.filter((point) => point.kind === kind));
    return round.pop();
  };
}

function durationOf(kind: FaultKind, random: Random, leaseMs: number): number {
  if (kind.startsWith('freeze') || kind === 'isolate worker')
    return random.whole(Math.floor(leaseMs * 1.5), leaseMs * 3);
  if (kind.endsWith('at a point')) return POINT_MS;
  if (kind === 'slow database' || kind === 'dump database') return random.whole(1000, 3000);
  if (kind === 'model outage') return random.whole(1000, 6000);
  return random.whole(100, 2000);
}
