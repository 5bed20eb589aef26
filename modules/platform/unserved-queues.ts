/** Warns of queues with waiting jobs that no process serves, such as one that `DROVER_QUEUES` of all workers leaves out. */
import { CONTRACTS } from '../../jobs/contracts.ts';
import type { Context } from '../governance/context.ts';

/** Returns how many there are. Only Redis knows its queues' workers, if its user may ask: otherwise this is 0. */
export async function warnOfUnserved({ config, queues, log }: Context): Promise<number> {
  if (config.mode !== 'full') return 0;
  const unserved = await Promise.all(
    CONTRACTS.map(async ({ name }) => {
      const queue = queues.queue(name);
      const waiting = await queue.getJobCountByTypes('wait', 'prioritized');
      if (waiting === 0) return undefined;
      const served = await queue.getWorkersCount().catch(() => undefined);
      return served === 0 ? { name, waiting } : undefined;
    }),
  );
  const found = unserved.filter((each) => each !== undefined);
  for (const { name, waiting } of found) {
    log.warn({ queue: name, waiting }, 'jobs wait in a queue that no process serves: see DROVER_QUEUES');
  }
  return found.length;
}
