/** The job `consolidation`: memory work for an agent or a space, outside of runs. Carries ids only. */
import { z } from 'zod';
import { LIMITS } from '../core/limits.ts';
import type { Database } from '../db/database.ts';
import type { LostFilter } from '../db/maintenance.ts';
import { listLostMemoryWork, type LostMemoryWork } from '../db/memory-work.ts';
import { defineJob, type LostJob } from './define-job.ts';

const owner = { tenantId: z.uuid(), agentId: z.uuid() };

/**
 * - `embed`: give entries their vectors
 * - `embed_fragments`: the same for fragments of a space
 * - `consolidate`: go through the short term, if the agent wants that
 * - `extract`: learn from a turn
 * - `check`: ask a model what something new contradicts
 */
const memoryJob = z.discriminatedUnion('work', [
  z.object({ ...owner, work: z.enum(['embed', 'consolidate']) }),
  z.object({ tenantId: z.uuid(), work: z.literal('embed_fragments'), spaceId: z.uuid() }),
  z.object({ ...owner, work: z.literal('extract'), turnId: z.uuid() }),
  z.object({ tenantId: z.uuid(), work: z.literal('check'), subjectId: z.uuid() }),
]);
export type ConsolidationJob = z.output<typeof memoryJob>;
export type CheckJob = Extract<ConsolidationJob, { work: 'check' }>;
export type ExtractionJob = Extract<ConsolidationJob, { work: 'extract' }>;

/** The older form that some queues still hold: the space's id is in `agentId`. */
const oldFragmentsJob = z
  .object({ ...owner, work: z.literal('embed_fragments') })
  .transform(({ agentId: spaceId, tenantId, work }) => ({ tenantId, work, spaceId }));

export const CONSOLIDATION = defineJob({
  name: 'consolidation',
  schema: z.union([memoryJob, oldFragmentsJob]),
  // One job per work and subject (agent, space, turn): one that still waits or runs is not sent again.
  id: (job: ConsolidationJob) => `${job.work}-${subjectOf(job)}`,
  // Most of them wait for a model.
  concurrency: { embedded: 2, services: 5 },
  isRoutine: true,
  recurs: true,
  listLost: listLostWork,
});

function jobOf(row: LostMemoryWork): ConsolidationJob {
  const { id, tenant_id: tenantId } = row;
  if (row.work === 'embed_fragments') return { tenantId, work: row.work, spaceId: id };
  if (row.work === 'check') return { tenantId, work: row.work, subjectId: id };
  const of = { tenantId, agentId: row.agent_id };
  return row.work === 'extract' ? { ...of, work: row.work, turnId: id } : { ...of, work: row.work };
}

function subjectOf(job: ConsolidationJob): string {
  if (job.work === 'extract') return job.turnId;
  if (job.work === 'embed_fragments') return job.spaceId;
  return job.work === 'check' ? job.subjectId : job.agentId;
}

async function listLostWork(db: Database, filter: LostFilter): Promise<LostJob<ConsolidationJob>[]> {
  const rows = await listLostMemoryWork(db, filter);
  return rows.map((row) => {
    const payload = jobOf(row);
    return {
      rowId: row.id,
      id: CONSOLIDATION.id(payload),
      payload,
      isDue: (delayMs: number) => delayMs <= LIMITS.memoryPauseMs,
    };
  });
}
