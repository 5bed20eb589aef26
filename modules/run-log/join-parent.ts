/** Tells a parent of its child's end, by a job sent with the commit that ends the child. */
import { isTerminal, type NewEvent } from '../../core/events.ts';
import { newId } from '../../lib/new-id.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { OutboxRow } from '../../db/commit-run.ts';
import { joinJobId, SUBTASKS } from '../../jobs/subtasks.ts';

type Child = Pick<RunRow, 'id' | 'tenant_id' | 'parent_run_id' | 'parent_task_id'>;

/** The job, if these events end a child with a task. */
export function joinJobs(run: Child, events: readonly NewEvent[]): OutboxRow[] {
  const { id, tenant_id: tenantId, parent_run_id: runId, parent_task_id: taskId } = run;
  const ends = events.some((event) => event.type === 'run.status_changed' && isTerminal(event.payload.to));
  if (!runId || !taskId || !ends) return [];
  return [{ id: newId(), queue: SUBTASKS.name, job_id: joinJobId(id), payload: { tenantId, runId, childId: id } }];
}

/** The job that starts what these events delegate, if anything. */
export function delegationJobs(run: Pick<RunRow, 'id' | 'tenant_id'>, events: readonly NewEvent[]): OutboxRow[] {
  const delegates = events.some((event) => event.type === 'input.requested' && event.payload.type === 'child');
  return delegates ? lookAtChildren(run) : [];
}

/** The job that examines a run's children: which to start, join, or cancel. */
export function lookAtChildren({ id: runId, tenant_id: tenantId }: Pick<RunRow, 'id' | 'tenant_id'>): OutboxRow[] {
  return [{ id: newId(), queue: SUBTASKS.name, at_position: true, payload: { tenantId, runId } }];
}
