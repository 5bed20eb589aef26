/** Asks for what is to be done for an agent's memory; reconciliation asks again for what was lost. */
import { LIMITS } from '../../core/limits.ts';
import { CONSOLIDATION, type ConsolidationJob } from '../../jobs/consolidation.ts';
import { newId } from '../../lib/new-id.ts';
import type { MemoryContext } from './context.ts';

/** Sends the job soon, so that what comes in the meantime is done with it. Never throws and does not wait. */
export function workSoon({ outbox }: Pick<MemoryContext, 'outbox'>, job: ConsolidationJob): void {
  const row = { id: newId(), queue: CONSOLIDATION.name, job_id: CONSOLIDATION.id(job), payload: { ...job } };
  void outbox.send(job.agentId, { seq: 0, fence: 0 }, [{ ...row, delay_ms: LIMITS.memoryPauseMs }]);
}
