import { TOOL_CALLS, type ToolCallJob } from '../../jobs/tool-calls.ts';
import { runToolCall } from '../../modules/tool-calls/run-tool-call.ts';
import { defineHandler } from '../handler.ts';
import { putBack } from '../put-back.ts';

/** Makes one attempt of the call; one that is held or pauses comes again. */
export const handler = defineHandler(TOOL_CALLS, async (context, payload, held) => {
  // Where there is nothing to make, somebody else has made or settled it.
  let outcome = 'passed';
  const tell = (status: string) => {
    outcome = status;
  };
  const end = await runToolCall(context, { ...payload, tell }, held.stop);
  if (end.kind === 'done') return { outcome, result: end.kind };
  await held.job.updateData(laterJob(held.job.data as ToolCallJob, end.attempt));
  return putBack(held, end.waitMs);
});

/**
 * The job of the next attempt: it passes the gate again, under the row's lock. A claim at once, for the attempt that was,
 * would be refused, and undo the batch of commits that it goes with.
 */
function laterJob(job: ToolCallJob, attempt: number | undefined): ToolCallJob {
  return { ...job, policyEpoch: undefined, ...(attempt !== undefined && { attempt }) };
}
