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
  /** Version of the tenant's governance that let the call pass; absent where it must be judged again. */
  governance: z.int().optional(),
  traceparent: z.string().optional(),
});
export type ToolCallJob = z.output<typeof toolCallJob>;

/** `attempt` counts the attempts that the ledger has seen before this job. */
export function toolCallJobId(callId: string, attempt: number): string {
  return `${callId}-${attempt}`;
}
