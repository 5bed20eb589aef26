/** Serves the queues of this process until it is stopped. */
import type { Context } from '../modules/governance/context.ts';
import { claimEarly } from '../db/maintenance-acts.ts';
import { CLOSE_WORKER_MS, WRITE_DOWN_MS } from '../jobs/backend.ts';
import type { QueueName } from '../jobs/contracts.ts';
import { MAINTENANCE, scheduleOf } from '../jobs/maintenance.ts';
import type { SlotReserves } from '../jobs/outbox.ts';
import { SUBTASKS } from '../jobs/subtasks.ts';
import { TOOL_CALLS } from '../jobs/tool-calls.ts';
import { TURNS } from '../jobs/turns.ts';
import { messageOf } from '../core/errors.ts';
import { withDeadline } from '../lib/deadline.ts';
import { warnOfEviction } from '../modules/platform/warn-of-eviction.ts';
import { reconcile } from '../modules/run-log/reconcile.ts';
import { handleJob } from './handle-job.ts';
import { followJobs } from './follow-jobs.ts';
import type { Duty } from './handler.ts';
import { keepMaintaining } from './keep-maintaining.ts';
import { loadHandlers } from './load-handlers.ts';
import { createTenantSlots } from './tenant-slots.ts';
import { watchHolds, type HoldWatch } from './watch-holds.ts';
import { createProcessSlots } from './process-slots.ts';
import {
  dispatchCalls,
  dispatchChildren,
  dispatchTurns,
  type LocalDispatch,
  type LocalDuty,
} from './local-dispatch.ts';
import { dispatchLooks } from './local-looks.ts';

export interface Workers {
  /** Takes no new jobs and hands back those held; work still running after `graceMs` is aborted, and has 2 s to record that. */
  stop: (graceMs: number) => Promise<void>;
}

/**
 * Starts a worker for each queue of this process, and the clock of maintenance. @throws a one-line Error for a queue
 * without a handler, before any of them works.
 */
export async function startWorkers(context: Context): Promise<Workers> {
  const { config, queues, log } = context;
  const handlers = await loadHandlers(config.queues);
  if (config.queues.some((name) => DRIVING.includes(name))) checkDefaultModel(context);
  const stop = new AbortController();
  let draining = false;
  const locally: LocalDispatch<unknown>[] = [];
  /** Errors already logged with their job; others are the queue's own, such as a lost worker. */
  const logged = new WeakSet();
  const following = followJobs(context, () => draining);
  const holds = await watchAll(context, [...handlers.keys()]);
  const workers = [...handlers].map(([name, handler]) => {
    const concurrency = config.concurrency[name];
    const slots = createTenantSlots(concurrency);
    const process = createProcessSlots(concurrency);
    const isHeld = () => holds.get(name)?.isHeld() ?? false;
    const duty = { stop: stop.signal, draining: () => draining, isHeld, slots, process };
    const { dispatches = [], offers = {}, joining } = DISPATCHERS[name]?.(context, duty, concurrency) ?? {};
    locally.push(...dispatches);
    context.outbox.offerSlots(offers);
    const held = { ...duty, ...(joining && { joining }) };
    const worker = queues.worker(
      name,
      async (job, token, lost) => {
        // The worker that has the job now waits for the lease in the database, which decides: the run is yielded,
        // not aborted.
        const isLeaving = () => duty.draining() || lost?.aborted === true;
        return handleJob(context, handler, { ...held, draining: isLeaving, job, token }).catch((error: unknown) => {
          if (error instanceof Error) logged.add(error);
          throw error;
        });
      },
      { concurrency, mostLockMs: handler.contract.mostLockMs },
    );
    worker.on(
      'failed',
      (job, error) => logged.has(error) || log.warn({ queue: name, job: job?.id, err: error }, 'job failed'),
    );
    following.follow(worker, handler);
    return worker;
  });
  const maintaining = config.queues.includes(MAINTENANCE.name) ? keepMaintaining(context) : undefined;
  const reconciled = reconcileAtStart(context);
  await warnOfEviction(context);
  log.info({ queues: config.queues, concurrency: config.concurrency }, 'workers started');
  return {
    stop: async (graceMs) => {
      draining = true;
      const deadline = setTimeout(() => stop.abort(new Error('the process is stopping')), graceMs);
      const parts: Record<string, Promise<unknown>> = {
        queues: queues.stopWorkers(workers, graceMs),
        reconciliation: reconciled,
        maintenance: Promise.resolve(maintaining?.stop()),
        holds: Promise.all([...holds.values()].map((each) => each.stop())),
        'local work': Promise.all(locally.map((each) => each.idle())),
        'follow-ups': following.idle(),
      };
      await endOf(parts, graceMs + CLOSE_MS).catch((err: unknown) => log.warn({ err }, 'workers stopped late'));
      clearTimeout(deadline);
    },
  };
}

/**
 * For aborted work to write down where it broke off, and for workers to close. Less than the process has for that
 * (`modules/platform/closers.ts`): its other connections close in the rest.
 */
const CLOSE_MS = WRITE_DOWN_MS + CLOSE_WORKER_MS / 2;

/** Rejects, with the names of those that go on, if not all parts have ended in time. */
async function endOf(parts: Readonly<Record<string, Promise<unknown>>>, timeoutMs: number): Promise<void> {
  const left = new Set(Object.keys(parts));
  const ended = Object.entries(parts).map(([name, part]) => part.finally(() => left.delete(name)));
  await withDeadline(Promise.all(ended), timeoutMs, 'late').catch((error: unknown) => {
    if (left.size === 0) throw error;
    throw new Error(`not ended, and left to others: ${[...left].join(', ')}`, { cause: error });
  });
}

/** How this process does a queue's work without the queue. */
interface Locally extends Pick<Duty, 'joining'> {
  dispatches: LocalDispatch<unknown>[];
  /** What the outbox asks first. */
  offers: Partial<SlotReserves>;
}

const DISPATCHERS: Readonly<Record<string, (context: Context, duty: LocalDuty, concurrency: number) => Locally>> = {
  [TURNS.name]: (context, duty) => {
    const turns = dispatchTurns(context, duty);
    return { dispatches: [turns], offers: { turns: turns.reserve } };
  },
  [TOOL_CALLS.name]: (context, duty) => {
    const calls = dispatchCalls(context, duty);
    return { dispatches: [calls], offers: { calls: calls.reserve } };
  },
  [SUBTASKS.name]: (context, duty, concurrency) => {
    const looks = dispatchLooks(context, duty);
    const children = dispatchChildren(context, duty, concurrency);
    const offers = { looks: looks.reserve, children: children.reserve };
    return { dispatches: [looks, children], offers, joining: looks.joining };
  },
};

/** The watch of each queue that this process may bypass. */
async function watchAll({ queues, log }: Context, names: readonly QueueName[]): Promise<Map<string, HoldWatch>> {
  const bypassed = names.filter((name) => name in DISPATCHERS);
  return new Map(
    await Promise.all(bypassed.map(async (name) => [name, await watchHolds(queues.queue(name), log)] as const)),
  );
}

/** Queues whose workers drive runs, and so ask models. */
const DRIVING: readonly string[] = [TURNS.name, SUBTASKS.name];

/** Throws if the default model has no key here: runs that name no model would fail in this process alone. */
function checkDefaultModel({ config, log, models }: Context): void {
  try {
    models.resolve(undefined);
  } catch (error) {
    throw new Error(`DROVER_MODEL cannot be asked by this process, which drives runs. ${messageOf(error)}`, {
      cause: error,
    });
  }
  for (const variable of config.unusedAddresses)
    log.warn({ variable }, 'this address of a provider is not used: its API key is not set');
  if (models.defaultName() === 'offline' && config.mode !== 'embedded')
    log.warn('no API key of a model provider is set: runs that name no model are answered by a planner for trials');
}

/** A look of another process within this time makes one of our own needless. */
const RECENT_MS = 1000;

/** Sends jobs that were lost while no worker ran. Of processes that start together only one looks. Never throws. */
async function reconcileAtStart(context: Context): Promise<void> {
  const { config, db, log } = context;
  const early = { act: 'reconcile', everyMs: scheduleOf('reconcile', config.leaseMs), recentMs: RECENT_MS };
  try {
    if (config.mode === 'embedded' || (await claimEarly(db, early))) await reconcile(context, 0);
  } catch (error) {
    log.warn({ err: error }, 'reconciliation at start failed');
  }
}
