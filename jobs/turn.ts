/** The job `turns`: look at this run, it has reached this position. Carries ids only. */
import { z } from 'zod';

export const TURNS = 'turns';

export const turnJob = z.object({
  tenantId: z.uuid(),
  runId: z.uuid(),
  /** For the log only: what there is to do, the run's log says. */
  turnId: z.uuid().optional(),
  seq: z.int().min(0),
  traceparent: z.string().optional(),
});
export type TurnJob = z.output<typeof turnJob>;

/** The same position of the same claim is the same job, however often it is sent. */
export function turnJobId(runId: string, seq: number, fence: number): string {
  return `${runId}-${seq}-${fence}`;
}
