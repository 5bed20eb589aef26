/** The outcome of a call that is answered, or left in doubt, by an earlier run's record. */
import { attemptError, type AttemptError } from '../../../core/ledger.ts';
import type { CallOutcome } from '../../../db/claim-run.ts';
import type { RecordedCall } from './replay-source.ts';

const UNSETTLED = {
  code: 'unsettled_in_record',
  message: 'The run that this one was started from had asked for the same call, whose outcome is not known.',
};

/** The error that marks a call's outcome as unknown, in its row of this run. */
export function doubtOf({ error }: RecordedCall): AttemptError {
  return attemptError({ ...(error ?? UNSETTLED), perhapsIn: 0 });
}

/** The call's result for the model. */
export function outcomeInRecord(call: RecordedCall): CallOutcome {
  const { status, is_error } = settledByRecord(call, '').row;
  if (status === 'unknown') return { status, output: null, is_error };
  const { output, content } = call;
  return { status, output, is_error, ...(content && { content }) };
}

/** The ledger row of a call that the record answers (its output is copied), and the event that settles it. */
export function settledByRecord(call: RecordedCall, callId: string) {
  const { is_error, error, output_bytes } = call;
  const tainted = call.trust === 'untrusted' && { untrusted: true as const };
  const made = { attempt: 0, finished_at: 'now', ...(tainted && { trust: call.trust }) };
  const said = call.origin && { origin: call.origin };
  const row = { ...made, ...said, copies_output: true, output_bytes: output_bytes ?? 0 };
  const about = { tool_call_id: callId };
  switch (call.status) {
    case 'succeeded':
      return {
        row: { ...row, status: 'succeeded' as const, is_error },
        event: {
          type: 'tool.succeeded' as const,
          payload: { ...about, latency_ms: 0, output_bytes: output_bytes ?? 0, ...tainted },
        },
      };
    case 'failed':
      return {
        row: {
          ...row,
          status: 'failed' as const,
          is_error: true,
          error: error?.perhaps_in === undefined ? error : doubtOf(call),
        },
        event: {
          type: 'tool.failed' as const,
          payload: { ...about, error: attemptError(error ?? UNSETTLED), attempts: 0, ...tainted },
        },
      };
    default:
      return {
        row: {
          ...made,
          output_bytes: 0,
          status: 'unknown' as const,
          output: null,
          is_error: true,
          error: doubtOf(call),
        },
        event: {
          type: 'tool.unknown' as const,
          payload: { ...about, error: attemptError(error ?? UNSETTLED), attempts: 0 },
        },
      };
  }
}
