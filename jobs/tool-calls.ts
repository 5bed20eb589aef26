/** The job `tool-calls`: make one attempt of this call through the ledger. Carries ids only. */
import { z } from 'zod';
import { listLostCalls } from '../db/maintenance.ts';
import { defineJob } from './define-job.ts';

const toolCallJob = z.object({
  tenantId: z.uuid(),
  runId: z.uuid(),
  turnId: z.uuid().optional(),
  callId: z.uuid(),
  /** The number of attempts in the ledger when the job was sent, and the step that requested the call. */
  attempt: z.int().min(0).optional(),
  step: z.int().optional(),
  /** The tenant's policy epoch when the gate passed the call; absent if the call must pass it again. */
  policyEpoch: z.int().optional(),
  traceparent: z.string().optional(),
});
export type ToolCallJob = z.output<typeof toolCallJob>;

export const TOOL_CALLS = defineJob({
  name: 'tool-calls',
  schema: toolCallJob,
  id: toolCallJobId,
  concurrency: { embedded: 20, services: 50 },
  listLost: async (db, filter) => {
    const calls = await listLostCalls(db, filter);
    return calls.map(({ tenant_id: tenantId, run_id: runId, id: callId, attempt, traceparent }) => ({
      rowId: callId,
      id: toolCallJobId({ callId, attempt }),
      payload: { tenantId, runId, callId, ...(traceparent !== null && { traceparent }) },
      isDue: () => true,
    }));
  },
});

/**
 * The job of the next attempt, which passes the gate again under the row's lock. An immediate claim for the old attempt
 * would be refused, and undo its whole batch of commits.
 */
export function laterJob(job: ToolCallJob, attempt: number | undefined): ToolCallJob {
  return { ...job, policyEpoch: undefined, ...(attempt !== undefined && { attempt }) };
}

/** `attempt`: the number of attempts in the ledger before this job. */
function toolCallJobId({ callId, attempt }: { callId: string; attempt: number }): string {
  return `${callId}-${attempt}`;
}
