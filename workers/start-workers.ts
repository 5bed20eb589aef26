/** Serves the queues of this process until it is stopped. */
import type { Worker } from 'bullmq';
import type { Context } from '../engine/context.ts';
import { MAINTENANCE, MAINTENANCE_ACTS, scheduleOf } from '../jobs/maintenance.ts';
import { JOB_OPTIONS } from '../jobs/options.ts';
import { reconcile } from '../services/reconcile.ts';
import { handle, HANDLERS } from './handlers.ts';

export interface Workers {
  /** Takes no new job and hands back what it holds; after `graceMs` whatever still runs is aborted. */
  stop: (graceMs: number) => Promise<void>;
}

/** Starts a worker for each queue that this process serves, and the schedules of maintenance. */
export async function startWorkers(context: Context): Promise<Workers> {
  const { config, queues, log } = context;
  const stop = new AbortController();
  let draining = false;
  const duty = { stop: stop.signal, draining: () => draining };
  const served = config.queues.filter((name) => name in HANDLERS);
  const workers = served.map((name) => {
    const concurrency = config.concurrency[name];
    const worker = queues.worker(name, (job, token) => handle(context, job, { ...duty, token }), { concurrency });
    worker.on('failed', (job, error) => log.warn({ queue: name, job: job?.id, err: error }, 'job failed'));
    return worker;
  });
  const schedules = served.includes(MAINTENANCE) ? await keepSchedules(context) : undefined;
  const reconciled = reconcile(context, 0).catch((error: unknown) =>
    log.warn({ err: error }, 'reconciliation at start failed'),
  );
  log.info({ queues: served, concurrency: config.concurrency }, 'workers started');
  return {
    stop: async (graceMs) => {
      draining = true;
      clearInterval(schedules);
      const deadline = setTimeout(() => stop.abort(new Error('the process is stopping')), Math.max(0, graceMs - 2000));
      await Promise.all([reconciled, ...workers.map((worker: Worker) => worker.close())]);
      clearTimeout(deadline);
    },
  };
}

/**
 * Makes the schedules of maintenance, and again where they are gone: a Redis that was flushed has lost them, and with
 * them what would find the runs that it has lost.
 */
async function keepSchedules(context: Context): Promise<NodeJS.Timeout> {
  const { queues, config, log } = context;
  const queue = queues.queue(MAINTENANCE);
  const keep = async () => {
    try {
      if ((await queue.getJobSchedulersCount()) < MAINTENANCE_ACTS.length) await schedule(context);
    } catch (error) {
      log.warn({ err: error }, 'the schedules of maintenance could not be looked at');
    }
  };
  await schedule(context).catch((error: unknown) => log.warn({ err: error }, 'maintenance is not scheduled yet'));
  return setInterval(() => void keep(), scheduleOf('reconcile', config.leaseMs));
}

async function schedule({ queues, config }: Context): Promise<void> {
  const queue = queues.queue(MAINTENANCE);
  for (const act of MAINTENANCE_ACTS) {
    await queue.upsertJobScheduler(
      act,
      { every: scheduleOf(act, config.leaseMs) },
      { name: act, data: { act }, opts: { ...JOB_OPTIONS, attempts: 1 } },
    );
  }
}
