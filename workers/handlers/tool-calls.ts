import { TOOL_CALLS } from '../../jobs/tool-calls.ts';
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
  return end.kind === 'later' ? putBack(held, end.waitMs) : { outcome, result: end.kind };
});
