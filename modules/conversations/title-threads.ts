/** Titles threads after their first turn: at once if no model is needed, otherwise by a job each. */
import { LIMITS } from '../../core/limits.ts';
import { plainTitle } from '../../core/titles.ts';
import { listFirstTurns, setTitles, takeDueTitles, type DueTitle } from '../../db/threads.ts';
import { RECURRING_JOB_OPTIONS } from '../../jobs/options.ts';
import { TITLES } from '../../jobs/titles.ts';
import { forEachIsolated } from '../for-each-isolated.ts';
import type { Context } from '../governance/context.ts';
import { modelsOf } from './models-of.ts';

/** After this many attempts, about a day, a thread stays without a title. */
const MOST_ATTEMPTS = 30;

/** Sets due titles, and sends jobs for those that need a model; returns the number of both. */
export async function titleThreads(context: Context): Promise<number> {
  const due = await takeDueTitles(context.db, LIMITS.sweepRows);
  const tenants = [...new Set(due.map(({ tenant_id }) => tenant_id))];
  const rows = tenants.map((tenant) => ({ tenant, threads: due.filter(({ tenant_id }) => tenant_id === tenant) }));
  await forEachIsolated(context.log, { rows }, ({ tenant, threads }) => titleOfTenant(context, tenant, threads));
  return due.length;
}

async function titleOfTenant(context: Context, tenantId: string, due: readonly DueTitle[]): Promise<void> {
  const ids = due.map(({ thread_id }) => thread_id);
  const turns = await context.db.withTenantOnce(tenantId, (tx) => listFirstTurns(tx, ids));
  const found = new Map(turns.map((turn) => [turn.thread_id, turn]));
  const settled: { thread: string; title: string | null }[] = [];
  const jobs: { tenantId: string; threadId: string }[] = [];
  for (const { thread_id: threadId, attempts } of due) {
    const turn = found.get(threadId);
    const isOffline = turn && (await modelsOf(context, tenantId, turn)).isOffline;
    // The thread was erased, or has a title.
    if (!turn || attempts > MOST_ATTEMPTS) settled.push({ thread: threadId, title: null });
    else if (isOffline) settled.push({ thread: threadId, title: plainTitle(turn.input.message) ?? null });
    else jobs.push({ tenantId, threadId });
  }
  if (settled.length > 0) await context.db.withTenant(tenantId, (tx) => setTitles(tx, settled));
  if (jobs.length > 0) await context.queues.queue(TITLES.name).addBulk(jobs.map(toJob));
}

function toJob(data: { tenantId: string; threadId: string }) {
  return { name: TITLES.name, data, opts: { ...RECURRING_JOB_OPTIONS, jobId: TITLES.id(data) } };
}
