/**
 * The jobs `subtasks`: with a task, drive the child that works on it; without one, look at this workflow or run that has delegated,
 * since a child of it has ended. They carry ids only. What is to be done stands in the database: a join trusts its rows, not the jobs.
 */
import { z } from 'zod';
import { listLostJoins } from '../db/task-upkeep.ts';
import { defineJob } from './define-job.ts';

const subtaskJob = z.object({
  tenantId: z.uuid(),
  runId: z.uuid(),
  taskId: z.uuid().optional(),
  /** The child whose end it tells of. */
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
  // A child that nobody drives is found like any other run; what is looked for here is an end that its parent has not seen.
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
 * Id of the job that looks at a workflow again after a while: nothing was appended to its log, whose position it would share.
 * There is one in each step of time.
 */
export function lookJobId(runId: string, at: Date, stepMs = 1000): string {
  return `look-${runId}-${Math.ceil(at.getTime() / stepMs)}`;
}

/** Id of the look at a workflow that waits for the children which one look has begun, by the first of them. */
export function nextLookJobId(childId: string): string {
  return `next-${childId}`;
}

/** The child by which such a look is named; undefined for any other job. */
export function readNextLook(jobId: string): string | undefined {
  return /^next-([0-9a-f-]{36})$/.exec(jobId)?.[1];
}

/** Id of the job that tells a parent of its child's end. */
export function joinJobId(childId: string): string {
  return `join-${childId}`;
}
