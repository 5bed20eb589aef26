/**
 * Sends a commit's jobs to BullMQ right after it, or runs them here if a slot is free. A sweep sends those that a crash
 * left behind.
 */
import { setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import { LIMITS } from '../core/limits.ts';
import { deleteOutbox, listOutbox } from '../db/outbox.ts';
import type { Database } from '../db/database.ts';
import type { OutboxRow } from '../db/commit-run.ts';
import type { QueueBackend } from './backend.ts';
import type { FairOrder } from './fair-order.ts';
import { positionJobId, type Position } from './define-job.ts';
import { sendJobs, type JobToSend } from './send-jobs.ts';
import type { DrivenFrom, LookHere, ReserveCallSlot, ReserveSlot, SlotReservation } from './slot-reservation.ts';
import { SUBTASKS, type SubtaskJob } from './subtasks.ts';
import { TURNS, type TurnJob } from './turns.ts';

export interface Outbox {
  /** Sends rows of a commit at `position`. Callers need not wait; it never rejects: failed rows are swept later. */
  send: (runId: string, position: { seq: number; fence: number }, rows: readonly OutboxRow[]) => Promise<void>;
  /**
   * Sends a job that follows from no commit. Callers need not wait; it never rejects: reconciliation makes up for a
   * failure.
   */
  sendJob: (job: Sendable) => Promise<void>;
  /**
   * Sets this process's slots, which are asked first from now on: to drive a turn or a child, to make a call, or to
   * look at a parent, at once.
   */
  offerSlots: (offered: Partial<SlotReserves>) => void;
  /** Reserves a slot of this process for a turn that is about to be committed; undefined if none is free for the tenant. */
  reserveSlot: (tenantId: string) => SlotReservation | undefined;
  /** Like `reserveSlot`, for a child. */
  reserveChildSlot: ReserveSlot;
  /**
   * Reserves a slot of this process for a tool call that is about to be requested; undefined if none is free for the
   * tenant.
   */
  reserveCallSlot: ReserveCallSlot;
  /** Drives the turn in its slot. Failures are handled here, but reject the promise, too. */
  drive: (slot: SlotReservation, job: TurnJob, from: DrivenFrom) => Promise<unknown>;
  /** Sends rows older than `olderThanMs`; returns how many. */
  sweep: (olderThanMs: number) => Promise<number>;
  /** Waits for jobs that are being sent. */
  close: () => Promise<void>;
}

export interface SlotReserves {
  turns: ReserveSlot;
  calls: ReserveCallSlot;
  looks: LookHere;
  children: ReserveSlot;
}

/** Sent rows are deleted together: a transaction for each would cost as much as sending them. */
const FORGET_AFTER_MS = 50;

/** Rows that a sweep sends before it deletes them: if the queue is away, the first batch fails and the others wait. */
const SWEPT_TOGETHER = 100;

/** A row of the table `outbox`. */
type Stored = Sendable & { id: string };

type Sendable = Omit<JobToSend, 'priority'>;

interface OutboxParts {
  db: Database;
  queues: QueueBackend;
  order: FairOrder;
  log: Logger;
}

/** An outbox over a queue backend. Sent rows are deleted in batches. */
export function createOutbox({ db, queues, order, log }: OutboxParts): Outbox {
  const { track, settle, allSettled } = createTracking(log);
  const reserve: SlotReserves = { turns: noop, calls: noop, looks: noop, children: noop };

  const deletion = createDeletion({ db, log }, track);

  const sendTogether = createSending(queues);

  const enqueue = async (rows: readonly Sendable[]) => {
    if (rows.length === 0) return;
    await sendTogether(rows.map((row) => ({ ...row, priority: order.next(String(row.payload['tenantId'])) })));
  };

  const follow = (driven: Promise<unknown>, row: Sendable) => {
    const left = (error: unknown) => {
      log.warn({ err: error, run: row.payload['runId'], queue: row.queue }, 'job left to the queue');
      return enqueue([row]);
    };
    track(driven.catch(left).then(noop, (error: unknown) => log.warn({ err: error }, 'job left for reconciliation')));
  };

  const takeOne = (row: Sendable): boolean => {
    const taken = row.delay_ms ? undefined : takeHere(row, reserve);
    if (taken) follow(taken, row);
    return taken !== undefined;
  };

  const sendAll = async (rows: readonly Stored[], take: (row: Sendable) => boolean) => {
    await enqueue(leftOf(rows, take));
    deletion.add(rows);
  };

  return {
    send: (runId, position, rows) => {
      const ready = rows.map((row) => atPosition(row, { runId, ...position }));
      return settle(sendAll(ready, takeOne), { run: runId }, 'job left for the sweep');
    },
    sendJob: (job) => settle(enqueue([job]), { queue: job.queue, job: job.job_id }, 'job left for reconciliation'),
    offerSlots: (offered) => {
      Object.assign(reserve, offered);
    },
    reserveSlot: (tenantId) => reserve.turns(tenantId),
    reserveChildSlot: (tenantId) => reserve.children(tenantId),
    reserveCallSlot: (tenantId) => reserve.calls(tenantId),
    drive: (slot, job, from) => {
      const driven = slot.drive(job, from);
      follow(driven, turnOf(job, from));
      return driven;
    },
    sweep: async (olderThanMs) => {
      const rows = await listOutbox(db, { olderThanMs, limit: LIMITS.sweepRows });
      for (let at = 0; at < rows.length; at += SWEPT_TOGETHER)
        // None runs locally: another build may have written them, which the queue's handler checks.
        await sendAll(rows.slice(at, at + SWEPT_TOGETHER), () => false);
      return rows.length;
    },
    close: async () => {
      await allSettled();
      await deletion.flush();
    },
  };
}

/** Tracks work under way. `settle` gives a promise that never rejects: failures are logged. */
function createTracking(log: Logger) {
  const open = new Set<Promise<void>>();
  const track = (work: Promise<void>) => {
    const done = work.finally(() => open.delete(done));
    open.add(done);
  };
  return {
    track,
    settle: (sent: Promise<void>, about: object, whatFailed: string): Promise<void> => {
      const settled = sent.catch((error: unknown) => log.warn({ err: error, ...about }, whatFailed));
      track(settled);
      return settled;
    },
    allSettled: async (): Promise<void> => {
      while (open.size > 0) await Promise.all(open);
    },
  };
}

/** The job that drives the turn if the process with its claim could not. */
function turnOf(job: TurnJob, { claimed }: DrivenFrom): Sendable {
  const job_id = TURNS.id({ ...job, fence: claimed.run.fence });
  return { queue: TURNS.name, job_id, payload: { ...job } };
}

/** Sends all jobs that become ready in one turn of the event loop, such as those of a group commit, in one round trip. */
function createSending(queues: QueueBackend): (jobs: readonly JobToSend[]) => Promise<void> {
  let waiting: JobToSend[] = [];
  let sending: Promise<void> | undefined;

  const sendAll = async () => {
    await setImmediate();
    const jobs = waiting;
    waiting = [];
    sending = undefined;
    await sendJobs(queues, jobs);
  };
  return (jobs) => {
    waiting.push(...jobs);
    return (sending ??= sendAll());
  };
}

/** Deletes sent rows in batches, some time later. */
function createDeletion({ db, log }: Pick<OutboxParts, 'db' | 'log'>, track: (work: Promise<void>) => void) {
  let sent: string[] = [];
  let timer: NodeJS.Timeout | undefined;

  const flush = async () => {
    clearTimeout(timer);
    timer = undefined;
    const ids = sent;
    sent = [];
    if (ids.length === 0) return;
    await deleteOutbox(db, ids).catch((error: unknown) => log.warn({ err: error }, 'outbox rows stay for the sweep'));
  };
  return {
    add: (rows: readonly { id: string }[]) => {
      sent.push(...rows.map(({ id }) => id));
      timer ??= setTimeout(() => track(flush()), FORGET_AFTER_MS);
    },
    flush,
  };
}

/** Runs the job in this process if it can: a turn or a child if a slot is free, or a look at a parent. */
function takeHere({ queue, payload }: Sendable, reserve: SlotReserves): Promise<unknown> | undefined {
  if (queue === TURNS.name) {
    const job = payload as TurnJob;
    return reserve.turns(job.tenantId)?.drive(job);
  }
  if (queue !== SUBTASKS.name) return undefined;
  const { taskId, ...job } = payload as SubtaskJob;
  // A child's job names no position.
  return taskId === undefined ? reserve.looks(job) : reserve.children(job.tenantId)?.drive({ ...job, seq: 0 });
}

const noop = () => undefined;

/**
 * The rows that were not taken. A job that waits for others of these is not offered, and is left out once all of them
 * are taken.
 */
function leftOf<R extends Sendable>(rows: readonly R[], take: (row: R) => boolean): R[] {
  const parents = new Set(rows.map(({ parent }) => parent?.job_id));
  const left = rows.filter((row) => parents.has(row.job_id) || !take(row));
  const awaited = new Set(left.map(({ parent }) => parent?.job_id));
  return left.filter(({ job_id }) => !parents.has(job_id) || awaited.has(job_id));
}

/** Fills in the position, as the commit did when it wrote the row. */
function atPosition({ parent, ...row }: OutboxRow, position: Position): Stored {
  const job_id = positionJobId(position);
  const named = parent && ('job_id' in parent ? parent : { queue: parent.queue, job_id });
  const of = named && { parent: named };
  if ('job_id' in row) return { ...row, ...of };
  return { ...row, ...of, job_id, payload: { ...row.payload, seq: position.seq } };
}
