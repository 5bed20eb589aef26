/** Jobs that are still to be sent, as tests read and change them. */
import { row, rows, tamper, type Owner, type Tenant } from './access.ts';

interface OutboxJob {
  id: string;
  queue: string;
  job_id: string;
  payload: Record<string, unknown>;
}

/** In the order in which they were written, of all queues or of one. */
export async function unsentJobs(tenant: Tenant, queue?: string): Promise<OutboxJob[]> {
  const jobs = await rows<OutboxJob>(tenant, 'select id, queue, job_id, payload from outbox order by id');
  return jobs.filter((job) => queue === undefined || job.queue === queue);
}

/** How many of them are for a run. */
export async function countUnsentJobsOf(tenant: Tenant, run: string): Promise<number> {
  const sql = `select count(*)::int as jobs from outbox where payload->>'runId' = $1`;
  return (await row<{ jobs: number }>(tenant, sql, run)).jobs;
}

/** As if the time before which a job shall not run had passed. */
export function makeJobDue(owner: Owner, jobId: string): Promise<void> {
  return tamper(owner, `update outbox set not_before = now() - interval '1 second' where job_id = $1`, jobId);
}

/** As if a job had waited for so many seconds while its queue was away. */
export function ageOutbox(owner: Owner, seconds: number): Promise<void> {
  return tamper(
    owner,
    `insert into outbox (id, tenant_id, queue, job_id, payload, created_at)
       select gen_random_uuid(), id, 'turns', 'stuck', '{}', now() - $1 * interval '1 second' from tenants limit 1`,
    seconds,
  );
}

/** As if the job that was aged had been sent. */
export function clearAgedJob(owner: Owner): Promise<void> {
  return tamper(owner, `delete from outbox where job_id = 'stuck'`);
}
