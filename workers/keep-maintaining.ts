/** The clock of maintenance: sends due acts, by the database's time. */
import { setTimeout as delay } from 'node:timers/promises';
import { addActs, claimDueActs, giveBackActs, type ClaimedAct } from '../db/maintenance-acts.ts';
import type { Context } from '../modules/governance/context.ts';
import { MAINTENANCE, MAINTENANCE_ACTS, scheduleOf, type MaintenanceAct } from '../jobs/maintenance.ts';
import { RECURRING_JOB_OPTIONS } from '../jobs/options.ts';

const LONGEST_TICK_MS = 1000;

/**
 * Looks several times a lease for due acts; the process that claims one sends its job. The schedule is in the database,
 * not in the queue: a flushed Redis loses no schedule, and the workers' clocks may differ.
 */
export function keepMaintaining(context: Context): { stop: () => Promise<void> } {
  const stopped = new AbortController();
  const ticking = tick(context, stopped.signal);
  return {
    async stop() {
      stopped.abort();
      await ticking;
    },
  };
}

async function tick(context: Context, stopped: AbortSignal): Promise<void> {
  const { config, db, log } = context;
  const everyMs = Object.fromEntries(MAINTENANCE_ACTS.map((act) => [act, scheduleOf(act, config.leaseMs)])) as Record<
    MaintenanceAct,
    number
  >;
  const tickMs = Math.min(LONGEST_TICK_MS, Math.floor(scheduleOf('reconcile', config.leaseMs) / 2));
  let known = false;
  while (!stopped.aborted) {
    try {
      if (!known) await addActs(db, MAINTENANCE_ACTS);
      known = true;
      await send(context, await claimDueActs(db, everyMs));
    } catch (error) {
      log.debug({ err: error }, 'maintenance cannot look for what is due');
    }
    await delay(tickMs, undefined, { signal: stopped }).catch(() => undefined);
  }
}

/**
 * Sends acts that may have something to do, unless they still wait or run. If the queue is away, all stay due: some run only
 * once an hour.
 */
async function send({ queues, db }: Context, claimed: readonly ClaimedAct<MaintenanceAct>[]): Promise<void> {
  const busy = claimed.filter(({ is_busy }) => is_busy);
  if (busy.length === 0) return;
  const jobs = busy.map(({ act }) => ({
    name: act,
    data: { act },
    opts: { ...RECURRING_JOB_OPTIONS, jobId: MAINTENANCE.id({ act }) },
  }));
  try {
    await queues.queue(MAINTENANCE.name).addBulk(jobs);
  } catch (error) {
    await giveBackActs(
      db,
      claimed.map(({ act }) => act),
    );
    throw error;
  }
}
