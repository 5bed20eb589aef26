/** Continues what waited for an answer: the run, or work elsewhere that has asked. */
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { lockToolCall } from '../../db/tool-calls.ts';
import { TOOL_CALLS } from '../../jobs/tool-calls.ts';
import { newId } from '../../lib/new-id.ts';
import { turnJobOf } from '../run-log/turn-job.ts';
import type { AppendedChange } from '../run-log/append-to-run.ts';

/** Closes the wait. Answers for work elsewhere are stored in the ledger, for the job that passes them on. */
export async function answeredCall(
  tx: Tx,
  run: RunRow,
  { callId, payload }: { callId: string; payload: unknown },
): Promise<Omit<AppendedChange, 'events'>> {
  const call = await lockToolCall(tx, callId);
  const close_waits = [callId];
  if (call?.status !== 'pending' || !call.remote) return { close_waits, outbox: [turnJobOf(run)] };
  const { question: _asked, ...remote } = call.remote;
  const answer = textOf(payload);
  return {
    close_waits,
    calls: [
      {
        id: callId,
        from: ['pending'],
        attempt: call.attempt,
        set: { status: 'pending', remote: { ...remote, answer } },
        retry_ms: 0,
      },
    ],
    // The run asks nothing of it any more.
    outbox: [
      turnJobOf(run),
      {
        id: newId(),
        queue: TOOL_CALLS.name,
        job_id: TOOL_CALLS.id({ callId, attempt: call.attempt }),
        payload: { tenantId: run.tenant_id, runId: run.id, callId, attempt: call.attempt },
      },
    ],
  };
}

/** A person's message as text; anything else as JSON. */
function textOf(payload: unknown): string {
  const message = (payload as { message?: unknown } | null)?.message;
  if (typeof message === 'string') return message;
  return typeof payload === 'string' ? payload : JSON.stringify(payload ?? null);
}
