/** How long the runs of a killed worker stop. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { startWorkers } from '../workers/start-workers.ts';
import { openDrover, type BenchDrover } from './drover.ts';
import type { Figure } from './figures.ts';
import type { Services } from './services.ts';

const RUNS = 20;
const LEASE_MS = 3000;
/** Reconciliation runs twice a lease. */
const RECONCILE_MS = LEASE_MS / 2;
const env = { DROVER_LEASE_MS: String(LEASE_MS), DROVER_QUEUE_PREFIX: 'bench-recovery' };

/** Kills the worker that holds all runs during a model call; another then takes them over. */
export async function measureRecovery(services: Services, startVictim: () => ChildProcess): Promise<Figure[]> {
  const drover = await openDrover('pure', services, { env });
  const victim = startVictim();
  try {
    const runs = await Promise.all(Array.from({ length: RUNS }, () => drover.start()));
    await until(async () => (await count(drover, 'driver_lease_expires_at is not null')) === runs.length);
    const workers = await startWorkers(drover.context);
    victim.kill('SIGKILL');
    const killedMs = performance.now();
    await until(async () => (await count(drover, "status = 'completed'")) === runs.length);
    const seconds = (performance.now() - killedMs) / 1000;
    await workers.stop(5000);
    return [
      {
        part: 'recovery',
        what: `last of ${RUNS} runs of a killed worker completed after`,
        value: seconds,
        unit: 's',
        ratio: { value: (1000 * seconds) / (LEASE_MS + RECONCILE_MS), to: 'lease and reconciliation' },
        goal: '<= 1',
      },
    ];
  } finally {
    victim.kill('SIGKILL');
    await drover.close();
  }
}

/** The worker to kill: takes the runs and asks a model that never answers. */
export async function beVictim(services: Services): Promise<never> {
  const drover = await openDrover('pure', services, { env, stream: () => new Promise(() => undefined) });
  await drover.serve(RUNS);
  await once(process, 'SIGTERM');
  process.exit(0);
}

async function count(drover: BenchDrover, where: string): Promise<number> {
  const [row] = await drover.context.db.asMaintenance((tx) =>
    tx.query<{ count: number }>(`select count(*)::int as count from runs where ${where}`),
  );
  return row?.count ?? 0;
}

const PATIENCE_MS = 60_000;

async function until(holds: () => Promise<boolean>): Promise<void> {
  const endsAtMs = performance.now() + PATIENCE_MS;
  while (!(await holds())) {
    if (performance.now() > endsAtMs) throw new Error('the runs were not taken up in a minute');
    await sleep(20);
  }
}
