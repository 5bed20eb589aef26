/** Gives webhooks their turns: a job for each webhook with due deliveries. */
import { LIMITS } from '../../core/limits.ts';
import { giveBackWebhooks, takeDueWebhooks } from '../../db/webhooks.ts';
import { RECURRING_JOB_OPTIONS } from '../../jobs/options.ts';
import { WEBHOOKS } from '../../jobs/webhooks.ts';
import type { Context } from '../governance/context.ts';
import { LEASE_MS } from './send-webhook.ts';

const AT_ONCE = 200;

/**
 * Sends the jobs of due webhooks, taking turns between tenants; returns their number. If a job is lost, its webhook becomes
 * due again after its lease. If the queue fails, all stay due.
 */
export async function dispatchWebhooks({ db, queues }: Pick<Context, 'db' | 'queues'>): Promise<number> {
  const taken = await takeDueWebhooks(db, { perTenant: LIMITS.webhooksAtOnce, limit: AT_ONCE, leaseMs: LEASE_MS });
  if (taken.length === 0) return 0;
  const jobs = taken.map(({ tenant_id: tenantId, webhook_id: webhookId }) => ({
    name: WEBHOOKS.name,
    data: { tenantId, webhookId },
    opts: { ...RECURRING_JOB_OPTIONS, jobId: WEBHOOKS.id({ tenantId, webhookId }) },
  }));
  try {
    await queues.queue(WEBHOOKS.name).addBulk(jobs);
  } catch (error) {
    await giveBackWebhooks(
      db,
      taken.map((each) => each.webhook_id),
    );
    throw error;
  }
  return jobs.length;
}
