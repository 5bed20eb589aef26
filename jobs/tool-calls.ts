/** The job `tool-calls`: make one attempt of this call through the ledger. Carries ids only. */
import { z } from 'zod';
import { listLostCalls } from '../db/maintenance.ts';
import { defineJob } from './define-job.ts';

const toolCallJob = z.object({
  tenantId: z.uuid(),
  runId: z.uuid(),
  turnId: z.uuid().optional(),
  callId: z.uuid(),
  /** Attempts that the ledger had seen when the job was sent, and the step that asked for the call. */
  attempt: z.int().min(0).optional(),
  step: z.int().optional(),
  /** The tenant's policy epoch under which the call passed; absent if it must pass the gate again. */
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
    return calls.map(({ tenant_id: tenantId, run_id: runId, id: callId, attempt }) => ({
      rowId: callId,
      id: toolCallJobId({ callId, attempt }),
      payload: { tenantId, runId, callId },
      isDue: () => true,
    }));
  },
});

/**
 * The job of the next attempt: it passes the gate again, under the row's lock. A claim at once, for the attempt that was,
 * would be refused, and undo the batch of commits that it goes with.
 */
export function laterJob(job: ToolCallJob, attempt: number | undefined): ToolCallJob {
  return { ...job, policyEpoch: undefined, ...(attempt !== undefined && { attempt }) };
}

/** `attempt` counts the attempts that the ledger has seen before this job. */
function toolCallJobId({ callId, attempt }: { callId: string; attempt: number }): string {
  return `${callId}-${attempt}`;
}
