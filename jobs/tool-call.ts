/** The job `tool-calls`: make one attempt of this call through the ledger. Carries ids only. */
import { z } from 'zod';

export const TOOL_CALLS = 'tool-calls';

export const toolCallJob = z.object({
  tenantId: z.uuid(),
  runId: z.uuid(),
  turnId: z.uuid().optional(),
  callId: z.uuid(),
  /** Attempts that the ledger had seen when the job was sent, and the step that asked for the call. */
  attempt: z.int().min(0).optional(),
  step: z.int().optional(),
  /** The tenant's policy epoch under which the call passed; absent where it must be judged again. */
  policyEpoch: z.int().optional(),
  traceparent: z.string().optional(),
});
export type ToolCallJob = z.output<typeof toolCallJob>;

/** `attempt` counts the attempts that the ledger has seen before this job. */
export function toolCallJobId(callId: string, attempt: number): string {
  return `${callId}-${attempt}`;
}
