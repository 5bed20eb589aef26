import type { Job, Worker } from 'bullmq';
import type { Context } from '../modules/governance/context.ts';
import type { Handler } from './handler.ts';

/** Does what follows jobs that are done, unless the process is stopping; `idle` waits for what has begun. */
export function followJobs(context: Context, draining: () => boolean) {
  const underWay = new Set<Promise<void>>();
  return {
    follow(worker: Worker, handler: Handler): void {
      if (!handler.after) return;
      worker.on('completed', (job) => {
        if (draining()) return;
        const after = afterJob(context, handler, job).finally(() => underWay.delete(after));
        underWay.add(after);
      });
    },
    idle: async (): Promise<void> => {
      await Promise.all(underWay);
    },
  };
}

/** Never throws: what is left undone is found by reconciliation. */
async function afterJob(context: Context, handler: Handler, job: Job): Promise<void> {
  try {
    await handler.after?.(context, job);
  } catch (error) {
    context.log.warn(
      { queue: handler.contract.name, job: job.id, err: error },
      'what follows a job is left for reconciliation',
    );
  }
}
