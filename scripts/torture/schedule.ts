/** The faults of a torture, from its seed: which, when, and to whom. */
import { createRandom, type Random } from './random.ts';

export const FAULT_KINDS = [
  'kill worker',
  'kill api',
  'freeze worker',
  'duplicate jobs',
  'cut database',
  'cut redis',
  'slow database',
  'restart postgres',
  'restart redis',
  'flush redis',
] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

export interface Fault {
  kind: FaultKind;
  atMs: number;
  /** How long a freeze, a cut or slowness lasts. */
  forMs: number;
  /** Picks among the processes, or among the runs, that there are then. */
  choice: number;
}

export interface ScheduleOptions {
  forMs: number;
  leaseMs: number;
  /** Without Redis there is nothing to break about it. */
  redis: boolean;
  /** Only services that the torture has started itself may be restarted or emptied. */
  ownServices: boolean;
}

const FIRST_MS = 1500;
const GAP_MS = [700, 2600] as const;

/** Each kind comes once in a shuffled round, killed workers and duplicates more often; then the next round. */
export function makeSchedule(seed: number, options: ScheduleOptions): Fault[] {
  const random = createRandom(seed, 'faults');
  const kinds = possibleKinds(options);
  const faults: Fault[] = [];
  let round: FaultKind[] = [];
  for (let atMs = FIRST_MS; atMs < options.forMs; atMs += random.whole(...GAP_MS)) {
    if (round.length === 0) round = random.shuffle([...kinds, 'kill worker', 'kill worker', 'duplicate jobs']);
    const kind = round.pop() ?? 'kill worker';
    faults.push({ kind, atMs, forMs: durationOf(kind, random, options.leaseMs), choice: random.whole(0, 999_999) });
  }
  return faults;
}

function possibleKinds({ redis, ownServices }: ScheduleOptions): FaultKind[] {
  return FAULT_KINDS.filter((kind) => {
    if (kind.endsWith('redis') && !redis) return false;
    return ownServices || !/^(restart|flush)/.test(kind);
  });
}

function durationOf(kind: FaultKind, random: Random, leaseMs: number): number {
  if (kind === 'freeze worker') return random.whole(Math.floor(leaseMs * 1.5), leaseMs * 3);
  if (kind === 'slow database') return random.whole(1000, 3000);
  return random.whole(100, 2000);
}
