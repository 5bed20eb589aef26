/** The job `consolidation`: what is to be done for an agent's memory beside its runs. Carries ids only. */
import { z } from 'zod';
import { LIMITS } from '../core/limits.ts';
import type { Database } from '../db/database.ts';
import type { LostFilter } from '../db/maintenance.ts';
import { listLostMemoryWork } from '../db/memory-work.ts';
import { defineJob, type LostJob } from './define-job.ts';

const owner = { tenantId: z.uuid(), agentId: z.uuid() };

/** `embed`: give entries their vectors. `consolidate`: go through the short term, where the agent wants that. `extract`: learn from a turn. */
const consolidationJob = z.discriminatedUnion('work', [
  z.object({ ...owner, work: z.enum(['embed', 'consolidate']) }),
  z.object({ ...owner, work: z.literal('extract'), turnId: z.uuid() }),
]);
export type ConsolidationJob = z.output<typeof consolidationJob>;
export type ExtractionJob = Extract<ConsolidationJob, { work: 'extract' }>;

export const CONSOLIDATION = defineJob({
  name: 'consolidation',
  schema: consolidationJob,
  // One job for an agent, or a turn, and a work: what still waits or runs is not sent again.
  id: (job: ConsolidationJob) => `${job.work}-${job.work === 'extract' ? job.turnId : job.agentId}`,
  // Most wait for a model.
  concurrency: { embedded: 2, services: 5 },
  isRoutine: true,
  listLost: listLostWork,
});

async function listLostWork(db: Database, filter: LostFilter): Promise<LostJob<ConsolidationJob>[]> {
  const rows = await listLostMemoryWork(db, filter);
  return rows.map(({ id, tenant_id: tenantId, agent_id: agentId, work }) => {
    const of = { tenantId, agentId };
    const payload: ConsolidationJob = work === 'extract' ? { ...of, work, turnId: id } : { ...of, work };
    return {
      rowId: id,
      id: CONSOLIDATION.id(payload),
      payload,
      isDue: (delayMs: number) => delayMs <= LIMITS.memoryPauseMs,
    };
  });
}
