/**
 * The jobs of a commit go to BullMQ right after it, or to this process itself if it has a free slot; a sweep sends what a
 * crash left over.
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
  /** Sends rows of a commit at `position`; nobody need wait for it, and it never rejects: what fails is swept later. */
  send: (runId: string, position: { seq: number; fence: number }, rows: readonly OutboxRow[]) => Promise<void>;
  /** Sends a job that follows from no commit; nobody need wait for it, and it never rejects: what fails is left for reconciliation. */
  sendJob: (job: Sendable) => Promise<void>;
  /** From now on asks first whether this process has a free slot to drive a turn or a child, to make a call, or to look at a parent, itself, at once. */
  offerSlots: (offered: Partial<SlotReserves>) => void;
  /** Holds room in this process for a turn of the tenant that is about to be committed; undefined if there is none. */
  reserveSlot: (tenantId: string) => SlotReservation | undefined;
  /** The same for a child. */
  reserveChildSlot: ReserveSlot;
  /** Holds room in this process for a tool call of the tenant that is about to be asked for; undefined if there is none. */
  reserveCallSlot: ReserveCallSlot;
  /** Drives the turn there. A failure is handled; the promise tells callers of it, too. */
  drive: (slot: SlotReservation, job: TurnJob, from: DrivenFrom) => Promise<unknown>;
  /** Sends what has lain there for longer than `olderThanMs`; answers how many. */
  sweep: (olderThanMs: number) => Promise<number>;
  /** Waits for what is being sent. */
  close: () => Promise<void>;
}

export interface SlotReserves {
  turns: ReserveSlot;
  calls: ReserveCallSlot;
  looks: LookHere;
  children: ReserveSlot;
}

/** Sent rows are deleted together: one transaction for each would cost as much as sending them. */
const FORGET_AFTER_MS = 50;

/** What a sweep sends before it forgets it: where the queue is away, the first of these fail and the others keep their turn. */
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

/** An outbox over a queue backend. Rows that were sent are deleted in batches. */
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
        // None dispatched locally: another build may have written them, and the handler of the queue looks at that.
        await sendAll(rows.slice(at, at + SWEPT_TOGETHER), () => false);
      return rows.length;
    },
    close: async () => {
      await allSettled();
      await deletion.flush();
    },
  };
}

/** What is under way. `settle` gives a promise that does not reject: what fails is in the log. */
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

/** The job that drives the turn where the process of its claim could not. */
function turnOf(job: TurnJob, { claimed }: DrivenFrom): Sendable {
  const job_id = TURNS.id({ ...job, fence: claimed.run.fence });
  return { queue: TURNS.name, job_id, payload: { ...job } };
}

/** Sends what becomes ready in one turn of the event loop, as the runs of one group commit do, in one round trip. */
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

/** Deletes rows some time after they were sent, together. */
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

/** What this process does at once: a turn or a child that it has a slot for, or a look at a run that has children. */
function takeHere({ queue, payload }: Sendable, reserve: SlotReserves): Promise<unknown> | undefined {
  if (queue === TURNS.name) {
    const job = payload as TurnJob;
    return reserve.turns(job.tenantId)?.drive(job);
  }
  if (queue !== SUBTASKS.name) return undefined;
  const { taskId, ...job } = payload as SubtaskJob;
  // No position is named in the job of a child.
  return taskId === undefined ? reserve.looks(job) : reserve.children(job.tenantId)?.drive({ ...job, seq: 0 });
}

const noop = () => undefined;

/** What is not taken. A job that waits for others among the rows is not offered, and not sent where all of these are taken. */
function leftOf<R extends Sendable>(rows: readonly R[], take: (row: R) => boolean): R[] {
  const parents = new Set(rows.map(({ parent }) => parent?.job_id));
  const left = rows.filter((row) => parents.has(row.job_id) || !take(row));
  const awaited = new Set(left.map(({ parent }) => parent?.job_id));
  return left.filter(({ job_id }) => !parents.has(job_id) || awaited.has(job_id));
}

/** A row as the commit has written it, which knew the position. */
function atPosition({ parent, ...row }: OutboxRow, position: Position): Stored {
  const job_id = positionJobId(position);
  const named = parent && ('job_id' in parent ? parent : { queue: parent.queue, job_id });
  const of = named && { parent: named };
  if ('job_id' in row) return { ...row, ...of };
  return { ...row, ...of, job_id, payload: { ...row.payload, seq: position.seq } };
}
