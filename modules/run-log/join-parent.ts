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
  return [{ id: newId(), queue: SUBTASKS.name, job_id: joinJobId(id), payload: { tenantId, runId } }];
}
