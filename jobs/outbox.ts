/**
 * What a commit wants sent goes to BullMQ right after it, or to this process itself where it has room; a sweep sends what a
 * crash left over.
 */
import type { Logger } from 'pino';
import { LIMITS } from '../core/limits.ts';
import { deleteOutbox, listOutbox } from '../db/outbox.ts';
import type { Database } from '../db/database.ts';
import type { OutboxRow } from '../db/commit-run.ts';
import type { QueueBackend } from './backend.ts';
import type { FairOrder } from './fair-order.ts';
import { JOB_OPTIONS } from './options.ts';
import type { DrivenFrom, ReserveSlot, SlotReservation } from './slot-reservation.ts';
import { turnJobId, TURNS, type TurnJob } from './turn.ts';

export interface Outbox {
  /** Sends rows of a commit at `position`; never throws and does not wait: what fails is swept later. */
  send: (runId: string, position: { seq: number; fence: number }, rows: readonly OutboxRow[]) => void;
  /** Asks first, from now on, whether this process has room to drive a turn itself, at once. */
  offerSlots: (reserveSlot: ReserveSlot) => void;
  /** Holds room in this process for a turn of the tenant that is about to be committed; undefined where there is none. */
  reserveSlot: (tenantId: string) => SlotReservation | undefined;
  /** Drives the turn there. Its failure is seen to; the promise is for those who want to know of it, too. */
  drive: (slot: SlotReservation, job: TurnJob, from: DrivenFrom) => Promise<unknown>;
  /** Sends what has lain there for longer than `olderThanMs`; answers how many. */
  sweep: (olderThanMs: number) => Promise<number>;
  /** Waits for what is being sent. */
  close: () => Promise<void>;
}

/** Sent rows are deleted together: one transaction for each would cost as much as sending them. */
const FORGET_AFTER_MS = 50;

interface Sendable {
  queue: string;
  job_id: string;
  payload: Record<string, unknown>;
  delay_ms?: number | undefined;
  children?: { job_id: string; payload: Record<string, unknown> }[] | null | undefined;
}

/** A row of the table `outbox`. */
type Stored = Sendable & { id: string };

export interface OutboxParts {
  db: Database;
  queues: QueueBackend;
  order: FairOrder;
  log: Logger;
}

/** An outbox over a queue backend. Rows that were sent are deleted in batches. */
export function createOutbox({ db, queues, order, log }: OutboxParts): Outbox {
  const open = new Set<Promise<void>>();
  let reserveSlot: ReserveSlot = () => undefined;

  const track = (work: Promise<void>) => {
    const done = work.finally(() => open.delete(done));
    open.add(done);
  };

  const deletion = createDeletion({ db, log }, track);

  const enqueue = (row: Sendable) => sendOne(queues, { ...row, priority: order.next(String(row.payload['tenantId'])) });

  const follow = (driven: Promise<unknown>, row: Sendable) => {
    const left = (error: unknown) => {
      log.warn({ err: error, run: row.payload['runId'] }, 'turn left to the queue');
      return enqueue(row);
    };
    track(driven.catch(left).then(noop, (error: unknown) => log.warn({ err: error }, 'turn left for reconciliation')));
  };

  const takeOne = (row: Sendable): boolean => {
    if (row.queue !== TURNS || row.delay_ms) return false;
    const job = row.payload as TurnJob;
    const slot = reserveSlot(job.tenantId);
    if (slot) follow(slot.drive(job), row);
    return slot !== undefined;
  };

  const sendAll = async (rows: readonly Stored[], sendOneRow: (row: Sendable) => Promise<unknown>) => {
    for (const row of rows) {
      await sendOneRow(row);
      deletion.add(row.id);
    }
  };

  return {
    send: (runId, position, rows) => {
      const ready = rows.map((row) => atPosition(row, runId, position));
      const dispatchedOrSent = async (row: Sendable) => takeOne(row) || enqueue(row);
      track(
        sendAll(ready, dispatchedOrSent).catch((error: unknown) =>
          log.warn({ err: error, run: runId }, 'job left for the sweep'),
        ),
      );
    },
    offerSlots: (offered) => {
      reserveSlot = offered;
    },
    reserveSlot: (tenantId) => reserveSlot(tenantId),
    drive: (slot, job, from) => {
      const job_id = turnJobId(job.runId, job.seq, from.claimed.run.fence);
      const driven = slot.drive(job, from);
      follow(driven, { queue: TURNS, job_id, payload: { ...job } });
      return driven;
    },
    sweep: async (olderThanMs) => {
      const rows = await listOutbox(db, { olderThanMs, limit: LIMITS.sweepRows });
      // Never dispatched locally: another build may have written them, and the handler of the queue looks at that.
      await sendAll(rows, enqueue);
      return rows.length;
    },
    close: async () => {
      while (open.size > 0) await Promise.all(open);
      await deletion.flush();
    },
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
    add: (id: string) => {
      sent.push(id);
      timer ??= setTimeout(() => track(flush()), FORGET_AFTER_MS);
    },
    flush,
  };
}

const noop = () => undefined;

/** A row as the commit has written it, which knew the position. */
function atPosition(row: OutboxRow, runId: string, { seq, fence }: { seq: number; fence: number }): Stored {
  return { ...row, job_id: turnJobId(runId, seq, fence), payload: { ...row.payload, seq } };
}

/** Sending a job twice is sending it once: its id says what it is for. */
async function sendOne(queues: QueueBackend, row: Sendable & { priority: number }): Promise<void> {
  const { priority, delay_ms: delay = 0 } = row;
  const jobs = row.children ?? [row];
  const [first] = jobs;
  const queue = queues.queue(row.queue);
  const optionsOf = ({ job_id: jobId }: { job_id: string }) => ({ ...JOB_OPTIONS, jobId, delay, priority });
  if (first && jobs.length === 1) await queue.add(row.queue, first.payload, optionsOf(first));
  else await queue.addBulk(jobs.map((job) => ({ name: row.queue, data: job.payload, opts: optionsOf(job) })));
}
