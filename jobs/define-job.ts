/** Describes a kind of job once: sender, worker, board, metrics, configuration and reconciliation follow from it. */
import type { z } from 'zod';
import type { Database } from '../db/database.ts';
import type { LostFilter } from '../db/maintenance.ts';

export interface JobContract<N extends string, P, I> {
  /** The name of its queue. */
  name: N;
  /** The payload: ids, never content. */
  schema: z.ZodType<P>;
  /** A job's id follows from its purpose, so that sending it twice is sending it once. */
  id: (of: I) => string;
  /** The default number of jobs that a worker process runs at a time, in embedded mode and with services. */
  concurrency: { embedded: number; services: number };
  /** Names of the jobs in the queue; by default the queue's name. */
  jobNames?: readonly string[];
  /** Frequent jobs that say little: they log at level `debug`, and do not count against their tenant's runs. */
  isRoutine?: true;
  /**
   * The longest lock of its jobs, where that is less than a lease: a dead worker's jobs are free soon. Only for jobs that
   * two workers may do at once, as after a pause that was longer than the lock.
   */
  mostLockMs?: number;
  /** Its ids come again: a job that is done is removed at once, or it would keep its id taken. */
  recurs?: true;
  /** A page of work that should have a job and may have none. Without this, lost jobs come again by themselves. */
  listLost?: (db: Database, filter: LostFilter) => Promise<LostJob<P>[]>;
}

/** Soon enough for what is due each second, and a hundred times as long as an event loop may be blocked. */
export const SHORT_LOCK_MS = 5000;

/** A contract with any name, payload and id. */
export type AnyJob = JobContract<string, unknown, never>;

/** A job that should exist according to the database. */
export interface LostJob<P = unknown> {
  /** The row's id, from which the next page goes on. */
  rowId: string;
  id: string;
  payload: P & { tenantId: string };
  /** Whether the job should have run by now if it was delayed by `delayMs`. */
  isDue: (delayMs: number) => boolean;
}

/** Infers a contract's types: name, payload, and input of `id`. */
export function defineJob<const N extends string, P, I>(contract: JobContract<N, P, I>): JobContract<N, P, I> {
  return contract;
}

/** A position in a run's log that a commit has reached. */
export interface Position {
  runId: string;
  seq: number;
  fence: number;
}

/** The id of a job for a committed position: same position and claim, same job. `commit_runs` computes it, too. */
export function positionJobId({ runId, seq, fence }: Position): string {
  return `${runId}-${seq}-${fence}`;
}

/** The position in a job's id; undefined if it has none. */
export function readPosition(jobId: string): Position | undefined {
  const [, runId, seq, fence] = /^([0-9a-f-]{36})-(\d+)-(\d+)$/.exec(jobId) ?? [];
  return runId === undefined ? undefined : { runId, seq: Number(seq), fence: Number(fence) };
}
