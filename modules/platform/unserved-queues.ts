/** Warns of queues with waiting jobs that no process serves, such as one that `DROVER_QUEUES` of all workers leaves out. */
import { CONTRACTS } from '../../jobs/contracts.ts';
import { MAINTENANCE } from '../../jobs/maintenance.ts';
import type { Context } from '../governance/context.ts';

const AGAIN_MS = 60_000;

/** Whoever looks serves this one: the look is one of its acts. */
const LOOKED_AT = CONTRACTS.map(({ name }) => name).filter((name) => name !== MAINTENANCE.name);

/**
 * Looks, and again after a minute at what it found: workers that are connecting again serve their queues, and Redis does
 * not know it yet. Returns how many the first look found.
 */
export async function warnOfUnserved(context: Context, againMs = AGAIN_MS): Promise<number> {
  const found = await findUnserved(context);
  if (found.length > 0) {
    const again = () =>
      warnOfStillUnserved(context, found).catch((error: unknown) =>
        context.log.debug({ err: error }, 'queues were not looked at again'),
      );
    // Not part of the act, which would take a minute; and a process that stops does not wait for it.
    setTimeout(() => void again(), againMs).unref();
  }
  return found.length;
}

interface Unserved {
  name: string;
  /** How many jobs wait. */
  waiting: number;
}

/** Only Redis knows its queues' workers, if its user may ask: otherwise this finds none. */
export async function findUnserved(
  { config, queues }: Context,
  names: readonly string[] = LOOKED_AT,
): Promise<Unserved[]> {
  if (config.mode !== 'full') return [];
  const unserved = await Promise.all(
    names.map(async (name) => {
      const queue = queues.queue(name);
      const waiting = await queue.getJobCountByTypes('wait', 'prioritized');
      if (waiting === 0) return undefined;
      const served = await queue.getWorkersCount().catch(() => undefined);
      return served === 0 ? { name, waiting } : undefined;
    }),
  );
  return unserved.filter((each) => each !== undefined);
}

/** Warns of those that nobody serves now, either. */
export async function warnOfStillUnserved(context: Context, found: readonly Unserved[]): Promise<void> {
  const names = found.map(({ name }) => name);
  for (const { name, waiting } of await findUnserved(context, names)) {
    context.log.warn({ queue: name, waiting }, 'jobs wait in a queue that no process serves: see DROVER_QUEUES');
  }
}
