/** The end of a child reaches its parent by a job, sent with the commit that ends the child. */
import { isTerminal, type NewEvent } from '../../core/events.ts';
import { newId } from '../../lib/new-id.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { OutboxRow } from '../../db/commit-run.ts';
import { joinJobId, SUBTASKS } from '../../jobs/subtasks.ts';

type Child = Pick<RunRow, 'id' | 'tenant_id' | 'parent_run_id' | 'parent_task_id'>;

/** The job, if these events end a child that works on a task. */
export function joinJobs(run: Child, events: readonly NewEvent[]): OutboxRow[] {
  const { id, tenant_id: tenantId, parent_run_id: runId, parent_task_id: taskId } = run;
  const ends = events.some((event) => event.type === 'run.status_changed' && isTerminal(event.payload.to));
  if (!runId || !taskId || !ends) return [];
  return [{ id: newId(), queue: SUBTASKS.name, job_id: joinJobId(id), payload: { tenantId, runId, childId: id } }];
}

/** The job that begins what these events delegate, if they delegate anything. */
export function delegationJobs(run: Pick<RunRow, 'id' | 'tenant_id'>, events: readonly NewEvent[]): OutboxRow[] {
  const delegates = events.some((event) => event.type === 'input.requested' && event.payload.type === 'child');
  return delegates ? lookAtChildren(run) : [];
}

/** The job that looks at a run and its children: what is to begin, to be joined, or to be cancelled. */
export function lookAtChildren({ id: runId, tenant_id: tenantId }: Pick<RunRow, 'id' | 'tenant_id'>): OutboxRow[] {
  return [{ id: newId(), queue: SUBTASKS.name, at_position: true, payload: { tenantId, runId } }];
}
