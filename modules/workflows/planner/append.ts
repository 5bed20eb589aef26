/** Appends a planner's results to the workflow's log. */
import { isTerminal } from '../../../core/events.ts';
import type { RunRow } from '../../../db/claim-run.ts';
import { listScheduledTasks } from '../../../db/scheduled-tasks.ts';
import { findWorkflow } from '../../../db/workflows.ts';
import { appendRead, type AppendedChange } from '../../run-log/append-to-run.ts';
import { announceCancelled, type CancelledRun } from '../../runs/cancel-children.ts';
import type { WorkflowLook } from '../advance/workflow-look.ts';
import type { Hold } from './hold-workflow.ts';

/** What is needed to write a planner's answer; it starts no tasks itself. */
export type PlannedStep = Pick<WorkflowLook, 'tx' | 'run' | 'workflow' | 'tasks' | 'events' | 'cancelled'>;

/** Appends under the planner's lease; nothing if another process has taken the run: it decides anew. */
export async function append(
  { context, run }: Hold,
  act: (step: PlannedStep) => Promise<AppendedChange | null>,
): Promise<void> {
  const cancelled: CancelledRun[] = [];
  await appendRead(
    context,
    { tenantId: run.tenant_id, runId: run.id },
    {
      read: (tx) => Promise.all([findWorkflow(tx, run.id), listScheduledTasks(tx, run.id)]),
      async act(now, tx, [workflow, tasks]) {
        if (!isHeld(run, now) || !workflow) return null;
        return act({ tx, run: now, workflow, tasks, events: [], cancelled });
      },
    },
  );
  announceCancelled(context, cancelled);
}

function isHeld({ fence }: RunRow, now: RunRow): boolean {
  return !isTerminal(now.status) && now.fence === fence;
}
