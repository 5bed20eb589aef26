/** What a commit wants sent goes to BullMQ right after it; a sweep sends what a crash left over. */
import type { Logger } from 'pino';
import { LIMITS } from '../core/limits.ts';
import { deleteOutbox, listOutbox } from '../db/outbox.ts';
import type { Database } from '../db/database.ts';
import type { OutboxRow } from '../db/run-store.ts';
import type { QueueBackend } from './backend.ts';
import { JOB_OPTIONS } from './options.ts';
import { turnJobId } from './turn.ts';

export interface Outbox {
  /** Sends rows of a commit at `position`; never throws and does not wait: what fails is swept later. */
  send: (run: string, position: { seq: number; fence: number }, rows: readonly OutboxRow[]) => void;
  /** Sends what has lain there for longer than `olderThanMs`; answers how many. */
  sweep: (olderThanMs: number) => Promise<number>;
  /** Waits for what is being sent. */
  close: () => Promise<void>;
}

interface Sendable {
  id: string;
  queue: string;
  job_id: string;
  payload: Record<string, unknown>;
  delay_ms?: number | undefined;
  children?: { queue: string; job_id: string; payload: Record<string, unknown> }[] | null | undefined;
}

/** An outbox over a queue backend. Rows that were sent are deleted in batches. */
export function createOutbox(db: Database, queues: QueueBackend, log: Logger): Outbox {
  const open = new Set<Promise<void>>();
  let sent: string[] = [];
  let flushing = false;

  const flush = async () => {
    if (flushing) return;
    flushing = true;
    while (sent.length > 0) {
      const ids = sent;
      sent = [];
      await deleteOutbox(db, ids).catch((error: unknown) => log.warn({ err: error }, 'outbox rows stay for the sweep'));
    }
    flushing = false;
  };

  const track = (work: Promise<void>) => {
    const done = work.finally(() => open.delete(done));
    open.add(done);
  };

  const sendAll = async (rows: readonly Sendable[]) => {
    for (const row of rows) {
      await sendOne(queues, row);
      sent.push(row.id);
    }
    await flush();
  };

  return {
    send: (run, { seq, fence }, rows) => {
      const ready = rows.map((row) => ({
        ...row,
        job_id: turnJobId(run, seq, fence),
        payload: { ...row.payload, seq },
      }));
      track(sendAll(ready).catch((error: unknown) => log.warn({ err: error, run }, 'job left for the sweep')));
    },
    sweep: async (olderThanMs) => {
      const rows = await listOutbox(db, { olderThanMs, limit: LIMITS.sweepRows });
      await sendAll(rows);
      return rows.length;
    },
    close: async () => {
      while (open.size > 0) await Promise.all(open);
    },
  };
}

/** Sending a job twice is sending it once: its id says what it is for. */
async function sendOne(queues: QueueBackend, row: Sendable): Promise<void> {
  const job = {
    name: row.queue,
    data: row.payload,
    opts: { ...JOB_OPTIONS, jobId: row.job_id, delay: row.delay_ms ?? 0 },
  };
  if (!row.children || row.children.length === 0) {
    await queues.queue(row.queue).add(job.name, job.data, job.opts);
    return;
  }
  await queues.flowProducer().add({
    ...job,
    queueName: row.queue,
    children: row.children.map((child) => ({
      name: child.queue,
      queueName: child.queue,
      data: child.payload,
      // A call that fails for good is an observation, not its parent's failure; without this the parent waits for ever.
      opts: { ...JOB_OPTIONS, jobId: child.job_id, ignoreDependencyOnFailure: true },
    })),
  });
}
