/** Appends to a workflow's log what came of asking its planner. */
import { isTerminal } from '../../../core/events.ts';
import { listScheduledTasks } from '../../../db/scheduled-tasks.ts';
import { findWorkflow } from '../../../db/workflows.ts';
import { appendRead, type AppendedChange } from '../../run-log/append-to-run.ts';
import { announceCancelled, type CancelledRun } from '../../runs/cancel-children.ts';
import type { WorkflowLook } from '../advance/workflow-look.ts';
import type { Planning } from './ask-planner.ts';

/** What the planner's answers are written with: it begins nothing by itself. */
export type PlannedStep = Pick<WorkflowLook, 'tx' | 'run' | 'workflow' | 'tasks' | 'events' | 'cancelled'>;

/** Appends under the lease that the planner has: whoever has taken the run since then decides anew. */
export async function append(
  { context, run }: Pick<Planning, 'context' | 'run'>,
  act: (step: PlannedStep) => Promise<AppendedChange | null>,
): Promise<void> {
  const cancelled: CancelledRun[] = [];
  await appendRead(
    context,
    { tenantId: run.tenant_id, runId: run.id },
    {
      read: (tx) => Promise.all([findWorkflow(tx, run.id), listScheduledTasks(tx, run.id)]),
      async act(now, tx, [workflow, tasks]) {
        if (isTerminal(now.status) || now.fence !== run.fence || !workflow) return null;
        return act({ tx, run: now, workflow, tasks, events: [], cancelled });
      },
    },
  );
  announceCancelled(context, cancelled);
}
