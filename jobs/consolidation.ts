/** The job `consolidation`: what is to be done for an agent's memory beside its runs. Carries ids only. */
import { z } from 'zod';
import { LIMITS } from '../core/limits.ts';
import type { Database } from '../db/database.ts';
import type { LostFilter } from '../db/maintenance.ts';
import { listLostMemoryWork } from '../db/memory-work.ts';
import { defineJob, type LostJob } from './define-job.ts';

const owner = { tenantId: z.uuid(), agentId: z.uuid() };

/** `embed`: give entries their vectors, `embed_fragments` those of a space, whose id stands in place of an agent's. `consolidate`: go through the short term, where the agent wants that. `extract`: learn from a turn. `check`: ask a model what something new contradicts. */
const consolidationJob = z.discriminatedUnion('work', [
  z.object({ ...owner, work: z.enum(['embed', 'embed_fragments', 'consolidate']) }),
  z.object({ ...owner, work: z.literal('extract'), turnId: z.uuid() }),
  z.object({ ...owner, work: z.literal('check'), subjectId: z.uuid() }),
]);
export type ConsolidationJob = z.output<typeof consolidationJob>;
export type CheckJob = Extract<ConsolidationJob, { work: 'check' }>;
export type ExtractionJob = Extract<ConsolidationJob, { work: 'extract' }>;

export const CONSOLIDATION = defineJob({
  name: 'consolidation',
  schema: consolidationJob,
  // One job for an agent, or a turn, and a work: what still waits or runs is not sent again.
  id: (job: ConsolidationJob) => `${job.work}-${subjectOf(job)}`,
  // Most wait for a model.
  concurrency: { embedded: 2, services: 5 },
  isRoutine: true,
  listLost: listLostWork,
});

function jobOf(
  work: 'embed' | 'embed_fragments' | 'extract' | 'check',
  id: string,
  of: { tenantId: string; agentId: string },
): ConsolidationJob {
  if (work === 'extract') return { ...of, work, turnId: id };
  return work === 'check' ? { ...of, work, subjectId: id } : { ...of, work };
}

function subjectOf(job: ConsolidationJob): string {
  if (job.work === 'extract') return job.turnId;
  return job.work === 'check' ? job.subjectId : job.agentId;
}

async function listLostWork(db: Database, filter: LostFilter): Promise<LostJob<ConsolidationJob>[]> {
  const rows = await listLostMemoryWork(db, filter);
  return rows.map(({ id, tenant_id: tenantId, agent_id: agentId, work }) => {
    const of = { tenantId, agentId };
    const payload = jobOf(work, id, of);
    return {
      rowId: id,
      id: CONSOLIDATION.id(payload),
      payload,
      isDue: (delayMs: number) => delayMs <= LIMITS.memoryPauseMs,
    };
  });
}
