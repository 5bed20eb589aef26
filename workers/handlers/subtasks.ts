import { SUBTASKS } from '../../jobs/subtasks.ts';
import { advanceWorkflow } from '../../modules/workflows/advance-workflow.ts';
import { driveJob } from '../drive-job.ts';
import { defineHandler } from '../handler.ts';

/** Drives the child that works on a task, or looks at a workflow. */
export const handler = defineHandler(SUBTASKS, async (context, payload, held) => {
  const { taskId, ...job } = payload;
  if (taskId !== undefined) return driveJob(context, job, held);
  const outcome = await advanceWorkflow(context, payload, held.stop);
  return { outcome, result: outcome };
});
