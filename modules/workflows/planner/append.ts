/** Appends to a workflow's log what came of asking its planner. */
import { isTerminal } from '../../../core/events.ts';
import { listScheduledTasks, type ScheduledTask } from '../../../db/scheduled-tasks.ts';
import { findWorkflow } from '../../../db/workflows.ts';
import { appendToRun, type AppendedChange } from '../../run-log/append-to-run.ts';
import { announceCancelled, type CancelledRun } from '../../runs/cancel-children.ts';
import type { WorkflowStep } from '../advance/workflow-step.ts';
import type { Planning } from './ask-planner.ts';

/** Appends under the lease that the planner has: whoever has taken the run since then decides anew. */
export async function append(
  { context, run }: Pick<Planning, 'context' | 'run'>,
  act: (step: Omit<WorkflowStep, 'context'>) => Promise<AppendedChange | null>,
): Promise<void> {
  const cancelled: CancelledRun[] = [];
  await appendToRun(context, { tenantId: run.tenant_id, runId: run.id }, async (now, tx) => {
    if (isTerminal(now.status) || now.fence !== run.fence) return null;
    const workflow = await findWorkflow(tx, now.id);
    if (!workflow) return null;
    const tasks: ScheduledTask[] = await listScheduledTasks(tx, now.id);
    return act({ tx, run: now, workflow, tasks, workers: new Map(), events: [], created: [], cancelled });
  });
  announceCancelled(context, cancelled);
}
