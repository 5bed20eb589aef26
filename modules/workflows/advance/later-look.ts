/** A look after a while, where agents have as many tasks as they take: nobody tells of one that becomes free. */
import type { RunRow } from '../../../db/claim-run.ts';
import type { OutboxRow } from '../../../db/commit-run.ts';
import { lookJobId, SUBTASKS } from '../../../jobs/subtasks.ts';
import { newId } from '../../../lib/new-id.ts';

const BUSY_MS = 1000;

/** The job that looks again. */
export function laterLook({ id: runId, tenant_id: tenantId }: Pick<RunRow, 'id' | 'tenant_id'>): OutboxRow {
  const job_id = lookJobId(runId, new Date(Date.now() + BUSY_MS));
  return { id: newId(), queue: SUBTASKS.name, job_id, delay_ms: BUSY_MS, payload: { tenantId, runId } };
}
