/** The answer of `/metrics`: this process's numbers, and current ones of database and queues. */
import type { Queue } from 'bullmq';
import type { Gauge } from 'prom-client';
import { readOverdueSeconds } from '../../db/maintenance-acts.ts';
import { readOutboxState } from '../../db/outbox.ts';
import { countWaitingRuns } from '../../db/waiting-runs.ts';
import { readDueDeliveries } from '../../db/webhook-deliveries.ts';
import { CONTRACTS } from '../../jobs/contracts.ts';
import { MAINTENANCE_ACTS } from '../../jobs/maintenance.ts';
import type { ProcessContext } from '../process-context.ts';
import { asUnavailable } from '../unavailable.ts';

const STATES = ['wait', 'active', 'delayed', 'prioritized', 'waiting-children', 'failed', 'completed'] as const;

/** The metrics in Prometheus's text format. Numbers that cannot be read are left out. */
export async function scrapeMetrics(context: ProcessContext): Promise<{ contentType: string; text: string }> {
  const { metrics } = context;
  metrics.queueJobs.reset();
  metrics.queueAge.reset();
  metrics.waitingRuns.reset();
  const queues = CONTRACTS.map(({ name }) => context.queues.queue(name));
  await Promise.all([
    askOrWarn(context, { what: 'runs', ask: () => refreshWaiting(context) }),
    askOrWarn(context, {
      what: 'maintenance',
      ask: () => refreshOverdue(context),
      gauges: [metrics.maintenanceOverdue],
    }),
    askOrWarn(context, {
      what: 'outbox',
      ask: () => refreshOutbox(context),
      gauges: [metrics.outboxJobs, metrics.outboxAge],
    }),
    askOrWarn(context, {
      what: 'deliveries',
      ask: () => refreshDeliveries(context),
      gauges: [metrics.deliveriesDue, metrics.deliveryAge],
    }),
    ...queues.map((queue) => askOrWarn(context, { what: queue.name, ask: () => refreshQueue(context, queue) })),
  ]);
  return { contentType: metrics.registry.contentType, text: await metrics.registry.metrics() };
}

interface Question {
  what: string;
  ask: () => Promise<void>;
  /** Without labels, which keep their last number, or 0, until they are removed: `reset` makes them 0. */
  gauges?: readonly Gauge[];
}

async function askOrWarn({ log }: ProcessContext, { what, ask, gauges = [] }: Question): Promise<void> {
  try {
    await ask();
  } catch (error) {
    for (const gauge of gauges) gauge.remove();
    if (!asUnavailable(error)) log.warn({ err: error, what }, 'a number could not be asked for');
  }
}

async function refreshWaiting({ db, metrics }: ProcessContext): Promise<void> {
  for (const { reason, count } of await countWaitingRuns(db)) metrics.waitingRuns.set({ reason }, count);
}

async function refreshOverdue({ db, metrics }: ProcessContext): Promise<void> {
  metrics.maintenanceOverdue.set(await readOverdueSeconds(db, MAINTENANCE_ACTS));
}

async function refreshOutbox({ db, metrics }: ProcessContext): Promise<void> {
  const { jobs, age_seconds } = await readOutboxState(db);
  metrics.outboxJobs.set(jobs);
  metrics.outboxAge.set(age_seconds);
}

async function refreshDeliveries({ db, metrics }: ProcessContext): Promise<void> {
  const { deliveries, age_seconds } = await readDueDeliveries(db);
  metrics.deliveriesDue.set(deliveries);
  metrics.deliveryAge.set(age_seconds);
}

async function refreshQueue({ metrics }: ProcessContext, queue: Queue): Promise<void> {
  const counts = await queue.getJobCounts(...STATES);
  for (const [state, count] of Object.entries(counts)) metrics.queueJobs.set({ queue: queue.name, state }, count);
  const heads = [await queue.getJobs(['wait'], 0, 0, true), await queue.getJobs(['prioritized'], 0, 0, true)].flat();
  const ages = heads.map((job) => Date.now() - job.timestamp - (job.opts.delay ?? 0));
  metrics.queueAge.set({ queue: queue.name }, Math.max(0, ...ages) / 1000);
}
