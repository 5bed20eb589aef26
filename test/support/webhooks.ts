/** Sends webhooks without workers: the turns that they would be given, one after the other. */
import { LIMITS } from '../../core/limits.ts';
import { takeDueWebhooks } from '../../db/webhooks.ts';
import type { Context } from '../../modules/governance/context.ts';
import { sendWebhook } from '../../modules/webhooks/send-webhook.ts';

/** Sends all that is due, until nothing is; answers how many deliveries have arrived. */
export async function sendDueWebhooks(context: Context): Promise<number> {
  const { signal } = new AbortController();
  let delivered = 0;
  for (;;) {
    const due = await takeDueWebhooks(context.db, { perTenant: LIMITS.webhooksAtOnce, limit: 100, leaseMs: 60_000 });
    if (due.length === 0) return delivered;
    const sent = await Promise.all(
      due.map(({ tenant_id: tenantId, webhook_id: webhookId }) =>
        sendWebhook(context, { tenantId, webhookId }, signal),
      ),
    );
    for (const each of sent) delivered += each.delivered;
  }
}
