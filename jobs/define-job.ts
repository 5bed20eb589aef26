/** What is said of a kind of job, once: sender, worker, board, metrics, configuration and reconciliation follow from it. */
import type { z } from 'zod';
import type { Database } from '../db/database.ts';
import type { LostFilter } from '../db/maintenance.ts';

export interface JobContract<N extends string, P, I> {
  /** Its queue. */
  name: N;
  /** Of what a job carries: ids, never content. */
  schema: z.ZodType<P>;
  /** A job's id follows from what it is for: sending it twice is sending it once. */
  id: (of: I) => string;
  /** Jobs that a worker process runs at a time unless it is told another number, in embedded mode and beside services. */
  concurrency: { embedded: number; services: number };
  /** Names of the jobs in the queue; where none are given, each has the queue's. */
  jobNames?: readonly string[];
  /** Its jobs come all the time and say little: their log lines are of level `debug`, and no tenant's runs wait for them. */
  isRoutine?: true;
  /** A page of the work that should have a job and may have none. Jobs without it come again by themselves. */
  listLost?: (db: Database, filter: LostFilter) => Promise<LostJob<P>[]>;
}

/** A contract of whatever name, payload and id. */
export type AnyJob = JobContract<string, unknown, never>;

/** A job that the database says there should be. */
export interface LostJob<P = unknown> {
  /** Of its row, by which the pages go on. */
  rowId: string;
  id: string;
  payload: P & { tenantId: string };
  /** Whether one that was delayed by so much should have run by now. */
  isDue: (delayMs: number) => boolean;
}

/** Types a contract by its name, its payload and what its id is made of. */
export function defineJob<const N extends string, P, I>(contract: JobContract<N, P, I>): JobContract<N, P, I> {
  return contract;
}

/** A position that a commit has reached in a run's log. */
export interface Position {
  runId: string;
  seq: number;
  fence: number;
}

/** Id of a job for a committed position: the same position of the same claim is the same job. `commit_run` makes it, too. */
export function positionJobId({ runId, seq, fence }: Position): string {
  return `${runId}-${seq}-${fence}`;
}

/** The position that the id of a job names; undefined where it names none. */
export function readPosition(jobId: string): Position | undefined {
  const [, runId, seq, fence] = /^([0-9a-f-]{36})-(\d+)-(\d+)$/.exec(jobId) ?? [];
  return runId === undefined ? undefined : { runId, seq: Number(seq), fence: Number(fence) };
}
