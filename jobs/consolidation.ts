/** The job `consolidation`: what is to be done for an agent's memory beside its runs. Carries ids only. */
import { z } from 'zod';
import { LIMITS } from '../core/limits.ts';
import type { Database } from '../db/database.ts';
import type { LostFilter } from '../db/maintenance.ts';
import { listUnembeddedAgents } from '../db/memory-work.ts';
import { defineJob, type LostJob } from './define-job.ts';

/** `embed`: give entries their vectors. `consolidate`: go through the short term, where the agent wants that. */
export const MEMORY_WORK = ['embed', 'consolidate'] as const;

const consolidationJob = z.object({ tenantId: z.uuid(), agentId: z.uuid(), work: z.enum(MEMORY_WORK) });
export type ConsolidationJob = z.output<typeof consolidationJob>;

export const CONSOLIDATION = defineJob({
  name: 'consolidation',
  schema: consolidationJob,
  // One job for an agent and a work: what still waits or runs is not sent again.
  id: ({ agentId, work }: ConsolidationJob) => `${work}-${agentId}`,
  concurrency: { embedded: 1, services: 2 },
  isRoutine: true,
  listLost: listLostWork,
});

async function listLostWork(db: Database, filter: LostFilter): Promise<LostJob<ConsolidationJob>[]> {
  const rows = await listUnembeddedAgents(db, filter);
  return rows.map(({ tenant_id: tenantId, agent_id: agentId }) => {
    const payload = { tenantId, agentId, work: 'embed' as const };
    return {
      rowId: agentId,
      id: CONSOLIDATION.id(payload),
      payload,
      isDue: (delayMs: number) => delayMs <= LIMITS.memoryPauseMs,
    };
  });
}
