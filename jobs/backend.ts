import { FlowProducer, Queue, Worker } from 'bullmq';
import type { Processor, QueueOptions, WorkerOptions } from 'bullmq';
import { withDeadline } from '../lib/deadline.ts';
import type { Database } from '../db/database.ts';
import { openPostgresQueues } from './postgres-queues.ts';
import type { QueueTransport, ReportError } from './queue-transport.ts';
import { openRedisQueues } from './redis-queues.ts';

/** The settings that the queues need. */
interface QueueSettings {
  readonly mode: 'embedded' | 'postgres' | 'full';
  readonly redisUrl: string | undefined;
  readonly queuePrefix: string;
  readonly leaseMs: number;
  readonly shutdownGraceMs: number;
}

/** BullMQ's settings for taking over jobs of a dead worker. */
interface WorkerTimes {
  lockDuration: number;
  lockRenewTime: number;
  stalledInterval: number;
}

interface WorkerSettings {
  /** Jobs at a time; BullMQ's default is 1. */
  concurrency?: number;
  /** False: `worker.run()` starts it. */
  autorun?: boolean;
  /** As in the contract of its jobs. */
  mostLockMs?: number | undefined;
}

/**
 * Makes BullMQ's objects on Redis or on Postgres (PGlite too); no caller knows which. Each object reports its errors to
 * `onError`; none of them ends the process. `close` also closes those still open.
 */
export interface QueueBackend {
  readonly kind: 'redis' | 'postgres';
  /** Gives the same object for the same name. */
  queue(name: string): Queue;
  /** The states of these jobs of a queue, in BullMQ's words; `unknown` for a job that is not there. One round trip. */
  states(name: string, ids: readonly string[]): Promise<string[]>;
  worker<D = unknown, R = unknown>(name: string, process: Processor<D, R>, settings?: WorkerSettings): Worker<D, R>;
  /** Gives the same object each time. */
  flowProducer(): FlowProducer;
  /** Answers within `timeoutMs` or throws: a `RefusesWritesError` where the service takes no writes. */
  ping(timeoutMs: number): Promise<void>;
  /** What Redis does once its memory is full: its `maxmemory-policy`, if it tells; undefined on Postgres. */
  evictionPolicy(): Promise<string | undefined>;
  /** Stops these workers taking jobs; jobs they hold have `graceMs` to end, then they are aborted and left to other workers. */
  stopWorkers(workers: readonly Worker[], graceMs: number): Promise<void>;
  /**
   * Stops all workers taking jobs; jobs they hold have `graceMs` to end (default: the configuration's), then they are
   * aborted and left to other workers.
   */
  close(graceMs?: number): Promise<void>;
}

/** How often a job may be found without its worker before it fails; what it stands for is in the database. */
const STALLED_LIMIT = 5;
/** Time for aborted work to record where it broke off. */
export const WRITE_DOWN_MS = 2000;
/** Time for a connection to close. */
const FORCE_CLOSE_MS = 1000;
/** Time for a worker to close, which polls the queue once more. */
export const CLOSE_WORKER_MS = 2000;

/**
 * Opens the queue on Redis if configured, else on the database. An unreachable Redis is no error (see `ping`); one that
 * refuses the password is.
 */
export async function openQueueBackend(
  config: QueueSettings,
  database: Database,
  onError: ReportError = () => undefined,
): Promise<QueueBackend> {
  const report = limitRate(onError);
  const transport =
    config.redisUrl === undefined
      ? await openPostgresQueues(database, config.mode === 'embedded')
      : await openRedisQueues({ url: config.redisUrl, prefix: config.queuePrefix }, report);
  const workers = new Map<LettingGo, Set<Promise<unknown>>>();
  let flows: FlowProducer | undefined;
  const common = { prefix: config.queuePrefix };
  const producer = { ...common, connection: transport.producerConnection, ...PRODUCER_STARTS_AT_ONCE };

  const queues = new Map<string, Queue>();
  const open = (name: string): Queue => {
    const queue = queues.get(name) ?? openQueue(name, producer, { transport, report });
    queues.set(name, queue);
    return queue;
  };

  return {
    kind: transport.kind,
    queue: open,
    states: (name, ids) => transport.states(open(name), ids),
    worker<D, R>(name: string, process: Processor<D, R>, settings: WorkerSettings = {}) {
      const { mostLockMs = config.leaseMs, ...own } = settings;
      const options: WorkerOptions = {
        ...common,
        connection: transport.workerConnection,
        ...workerTimes(Math.min(config.leaseMs, mostLockMs)),
        maxStalledCount: STALLED_LIMIT,
        // BullMQ's default of 15 s would delay work that long after a database or Redis has come back.
        runRetryDelay: 1000,
        ...own,
      };
      const running = new Set<Promise<unknown>>();
      const worker = new LettingGo<D, R>(name, remember(process, running), options, transport.factory);
      worker.on('error', (error) => report(error, `worker ${name}`));
      // Another worker may have the job by now: going on would be wasted work.
      worker.on('lockRenewalFailed', (jobIds) => {
        for (const id of jobIds) worker.cancelJob(id, 'the lock could not be renewed');
      });
      workers.set(worker as LettingGo, running);
      return worker;
    },
    flowProducer() {
      flows ??= openFlows(producer, { transport, report });
      return flows;
    },
    ping: (timeoutMs) => transport.ping(timeoutMs),
    evictionPolicy: () => transport.evictionPolicy(),
    stopWorkers: (stopped, graceMs) => stopAll(workers, { stopped: new Set(stopped), graceMs }),
    async close(graceMs = config.shutdownGraceMs) {
      await stopAll(workers, { stopped: new Set(workers.keys()), graceMs });
      const producers = flows === undefined ? [...queues.values()] : [...queues.values(), flows];
      await Promise.all(producers.map((each) => within(each.close(), FORCE_CLOSE_MS)));
      await transport.close();
    },
  };
}

function openQueue(
  name: string,
  options: QueueOptions,
  { transport, report }: { transport: QueueTransport; report: ReportError },
): Queue {
  const queue = new Queue(name, options, transport.factory);
  queue.on('error', (error) => report(error, `queue ${name}`));
  return queue;
}

function openFlows(
  options: QueueOptions,
  { transport, report }: { transport: QueueTransport; report: ReportError },
): FlowProducer {
  const flows = new FlowProducer(options, transport.factory);
  flows.on('error', (error) => report(error, 'flows'));
  return flows;
}

/** Otherwise BullMQ would wait for a first connection, however long, before a call could fail. */
const PRODUCER_STARTS_AT_ONCE = { skipWaitingForReady: true, skipVersionCheck: true };

/**
 * BullMQ's times for a lock. A dead worker's job is free after its lock has expired and a stalled check has run:
 * within one and a half times the lock.
 */
export function workerTimes(lockMs: number): WorkerTimes {
  return { lockDuration: lockMs, lockRenewTime: Math.floor(lockMs / 3), stalledInterval: Math.ceil(lockMs / 2) };
}

/** Runs a job as `process` does, and keeps its work in `running` until it ends. */
function remember<D, R>(process: Processor<D, R>, running: Set<Promise<unknown>>): Processor<D, R> {
  // BullMQ passes a signal only if the parameter is declared.
  return (job, token, signal) => {
    const work = process(job, token, signal);
    const remembered = work
      .catch(() => undefined)
      .finally(() => {
        running.delete(remembered);
      });
    running.add(remembered);
    return work;
  };
}

/** A worker whose `close` was cut off would renew its locks while the process lives: nobody could take its jobs. */
class LettingGo<D = unknown, R = unknown> extends Worker<D, R> {
  letGo(): Promise<void> {
    return this.lockManager.close();
  }
}

/** `workers` maps each worker to its running jobs. */
async function stopAll(
  workers: ReadonlyMap<LettingGo, ReadonlySet<Promise<unknown>>>,
  { stopped, graceMs }: { stopped: ReadonlySet<Worker>; graceMs: number },
): Promise<void> {
  const closed = [...workers].filter(([worker]) => stopped.has(worker));
  await Promise.all(closed.map(([worker, running]) => closeWorker(worker, running, graceMs)));
}

/** Not `close` alone: it would wait for a job without limit, and could not be told to stop waiting. */
async function closeWorker(worker: LettingGo, running: ReadonlySet<Promise<unknown>>, graceMs: number): Promise<void> {
  if (worker.closing !== undefined) {
    await within(worker.closing, CLOSE_WORKER_MS);
    await worker.letGo();
    return;
  }
  await worker.pause(true);
  if (!(await within(Promise.all(running), graceMs))) {
    worker.cancelAllJobs('the worker is shutting down');
    await within(Promise.all(running), WRITE_DOWN_MS);
  }
  // A job that ignores its signal is abandoned; its lock expires.
  if (await within(worker.close(running.size > 0), CLOSE_WORKER_MS)) return;
  await worker.letGo();
  await within(worker.disconnect(), FORCE_CLOSE_MS);
}

/** Whether the promise has settled in time, successfully or not. */
async function within(promise: Promise<unknown>, timeoutMs: number): Promise<boolean> {
  const settled = promise.then(
    () => true,
    () => true,
  );
  return withDeadline(settled, timeoutMs, 'late').catch(() => false);
}

const REPORT_INTERVAL_MS = 10_000;

/**
 * Reports each error of a source at most once in 10 s: while Redis is away, each connection repeats it several times a
 * second.
 */
export function limitRate(report: ReportError): ReportError {
  const last = new Map<string, number>();
  return (error, source) => {
    const key = `${source} ${error.message}`;
    const now = Date.now();
    if (now - (last.get(key) ?? 0) < REPORT_INTERVAL_MS) return;
    if (last.size > 1000) last.clear();
    last.set(key, now);
    report(error, source);
  };
}
