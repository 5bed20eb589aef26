/** Asks for what is to be done for the memory of an agent or a space; reconciliation asks again for what was lost. */
import { LIMITS } from '../../core/limits.ts';
import { CONSOLIDATION, type ConsolidationJob } from '../../jobs/consolidation.ts';
import type { MemoryContext } from './memory-context.ts';

/** Sends the job soon, so that what comes in the meantime is done with it. Never throws and does not wait. */
export function workSoon({ outbox }: Pick<MemoryContext, 'outbox'>, job: ConsolidationJob): void {
  const { name: queue, id } = CONSOLIDATION;
  void outbox.sendJob({ queue, job_id: id(job), payload: { ...job }, delay_ms: LIMITS.memoryPauseMs });
}
