import { laterJob, TOOL_CALLS, type ToolCallJob } from '../../jobs/tool-calls.ts';
import { runToolCall } from '../../modules/tool-calls/run-tool-call.ts';
import type { Context } from '../../modules/governance/context.ts';
import { defineHandler, type Done, type HeldJob } from '../handler.ts';
import { inProcessSlot } from '../in-process-slot.ts';
import { putBack } from '../put-back.ts';

/** Makes one attempt of the call; a call that is held or must wait is put back. */
export const handler = defineHandler(TOOL_CALLS, (context, payload, held) =>
  inProcessSlot(held, () => makeCall(context, payload, held)),
);

async function makeCall(context: Context, payload: ToolCallJob, held: HeldJob): Promise<Done> {
  const { end, outcome } = await runToolCall(context, payload, held.stop);
  if (end.kind === 'done') return { outcome, result: end.kind };
  await held.job.updateData(laterJob(held.job.data as ToolCallJob, end.attempt));
  return putBack(held, end.waitMs);
}
