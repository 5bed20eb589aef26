/** The job `turns`: look at this run, which has reached this position. Carries ids only. */
import { z } from 'zod';
import { listLostRuns } from '../db/maintenance.ts';
import { defineJob, positionJobId } from './define-job.ts';

const turnJob = z.object({
  tenantId: z.uuid(),
  runId: z.uuid(),
  /** For logging only: the run's log says what there is to do. */
  turnId: z.uuid().optional(),
  seq: z.int().min(0),
  traceparent: z.string().optional(),
});
export type TurnJob = z.output<typeof turnJob>;

/** How long after its time a delayed job is considered late. */
const LATE_MS = 60_000;

export const TURNS = defineJob({
  name: 'turns',
  schema: turnJob,
  id: positionJobId,
  // An embedded database is one session on this process's event loop: more jobs at a time would only wait for it.
  concurrency: { embedded: 20, services: 50 },
  listLost: async (db, filter) => {
    const runs = await listLostRuns(db, filter);
    return runs.map(({ tenant_id: tenantId, id: runId, last_seq: seq, fence, quiet_ms: quietMs }) => ({
      rowId: runId,
      id: positionJobId({ runId, seq, fence }),
      payload: { tenantId, runId, seq },
      isDue: (delayMs) => quietMs > delayMs + LATE_MS,
    }));
  },
});
