/**
 * The jobs `subtasks`. With a task: drive the child that works on it. Without one: look at this workflow, or this run
 * that has delegated, since a child of it has ended. With `isTurn`: drive this run, which a process of 0.1.0 could not. Ids only: the work is in the database, and a join trusts its rows,
 * not jobs.
 */
import { z } from 'zod';
import { listLostJoins } from '../db/task-upkeep.ts';
import { defineJob } from './define-job.ts';

const subtaskJob = z.object({
  tenantId: z.uuid(),
  runId: z.uuid(),
  taskId: z.uuid().optional(),
  isTurn: z.literal(true).optional(),
  /** The child whose end this job reports. */
  childId: z.uuid().optional(),
  turnId: z.uuid().optional(),
  seq: z.int().min(0).default(0),
  traceparent: z.string().optional(),
});
export type SubtaskJob = z.output<typeof subtaskJob>;

export const SUBTASKS = defineJob({
  name: 'subtasks',
  schema: subtaskJob,
  id: ({ taskId, attempt }: { taskId: string; attempt: number }) => `${taskId}-${attempt}`,
  concurrency: { embedded: 20, services: 50 },
  // Lost children are found like any other run; this finds ends of children that their parent has not seen.
  listLost: async (db, filter) => {
    const joins = await listLostJoins(db, filter);
    return joins.map(({ tenant_id: tenantId, id, workflow_id: runId, run_id: childId }) => ({
      rowId: id,
      id: joinJobId(childId),
      payload: { tenantId, runId, seq: 0 },
      isDue: () => true,
    }));
  },
});

/**
 * The id of a later look at a workflow. Nothing was appended to the log, so a position would repeat an id. One per
 * `stepMs`.
 */
export function lookJobId(runId: string, at: Date, stepMs = 1000): string {
  return `look-${runId}-${Math.ceil(at.getTime() / stepMs)}`;
}

/** The id of the look that waits for the children begun by one look, named after the first of them. */
export function nextLookJobId(childId: string): string {
  return `next-${childId}`;
}

/** The child that such a look is named after; undefined for any other job. */
export function readNextLook(jobId: string): string | undefined {
  return /^next-([0-9a-f-]{36})$/.exec(jobId)?.[1];
}

/** The id of the job that reports a child's end to its parent. */
export function joinJobId(childId: string): string {
  return `join-${childId}`;
}
