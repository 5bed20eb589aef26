import { SUBTASKS } from '../../jobs/subtasks.ts';
import { advanceParent } from '../../modules/workflows/advance-parent.ts';
import { driveJob } from '../drive-job.ts';
import { defineHandler } from '../handler.ts';

/** Drives the child that works on a task, or a run that `turns` may not get to a newer process, or looks at a run that has children. */
export const handler = defineHandler(SUBTASKS, async (context, payload, held) => {
  const { taskId, isTurn, ...job } = payload;
  if (isTurn) return driveJob(context, job, held);
  if (taskId !== undefined) {
    const drive = () => driveJob(context, job, held);
    return held.joining ? held.joining(job.runId, held.job, drive) : drive();
  }
  const { childId } = payload;
  const outcome = await advanceParent(
    context,
    { ...payload, ...(childId !== undefined && { childIds: [childId] }) },
    held.stop,
  );
  return { outcome, result: outcome };
});
