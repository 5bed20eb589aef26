/** Warns of a Redis that may evict jobs, whose runs then wait until reconciliation finds them. */
import type { Context } from '../governance/context.ts';

/** What a process has warned of, so that it says so once, and again where it has changed. */
const told = new WeakMap<Context['queues'], string>();

/** Looks at Redis's eviction policy, if its user may ask for it. Never throws. */
export async function warnOfEviction({ queues, log }: Pick<Context, 'queues' | 'log'>): Promise<void> {
  const policy = await queues.evictionPolicy().catch(() => undefined);
  if (policy === undefined || policy === told.get(queues)) return;
  told.set(queues, policy);
  if (policy === 'noeviction') return;
  log.warn(
    { policy },
    'Redis may evict jobs once its memory is full, and the runs of these wait until they are sent again: set its maxmemory-policy to noeviction',
  );
}
