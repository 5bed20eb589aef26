/** Sends jobs for the memory of an agent or a space; reconciliation repeats lost ones. */
import { LIMITS } from '../../core/limits.ts';
import { CONSOLIDATION, type ConsolidationJob } from '../../jobs/consolidation.ts';
import type { MemoryContext } from './memory-context.ts';

/** Sends the job after a pause, so that it covers what comes in the meantime. Never throws, and does not wait. */
export function workSoon({ outbox }: Pick<MemoryContext, 'outbox'>, job: ConsolidationJob): void {
  const { name: queue, id, recurs } = CONSOLIDATION;
  void outbox.sendJob({ queue, job_id: id(job), payload: { ...job }, delay_ms: LIMITS.memoryPauseMs, recurs });
}
