/** Delivers events to webhooks: at least once each, through the channel of their URL. */
import { LIMITS } from '../../core/limits.ts';
import { SecretUnreadableError } from '../../core/secret-box.ts';
import {
  claimDeliveries,
  findWebhook,
  listDueWebhooks,
  finishDelivery,
  updateWebhook,
  type ClaimedDelivery,
  type DeliveryOutcome,
  type WebhookRow,
} from '../../db/webhooks.ts';
import type { Context } from '../governance/context.ts';
import { EgressError } from '../../tools/egress-error.ts';
import { channelOf } from './channels.ts';
import type { Notice } from './channels/channel.ts';
import { forEachIsolated } from '../for-each-isolated.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { readSecrets } from '../tenants/secrets.ts';

const TIMEOUT_MS = 10_000;
/** Longer than an attempt can take. */
const LEASE_MS = 60_000;
const AT_A_TIME = 10;
const WEBHOOKS_A_ROUND = 50;
const ROUND_MS = 20_000;
const FIRST_WAIT_MS = 5000;
const LONGEST_WAIT_MS = 6 * 3_600_000;

/** The name under which a webhook's signing secret is kept; no secret of a client's can have it. */
export const secretNameOf = (webhookId: string) => `webhook:${webhookId}`;

type Sender = Pick<Context, 'db' | 'keyring' | 'egress' | 'log' | 'metrics'>;

/** Sends what is due, webhook by webhook, until nothing is left or the round is over; answers how many arrived. */
export async function sendWebhooks(context: Sender): Promise<number> {
  const endsAtMs = Date.now() + ROUND_MS;
  const failing = new Set<string>();
  let delivered = 0;
  while (Date.now() < endsAtMs) {
    const due = await listDueWebhooks(context.db, WEBHOOKS_A_ROUND);
    // One that is down is not asked again in this round, and keeps nobody waiting.
    const now = due.filter(({ webhook_id }) => !failing.has(webhook_id)).slice(0, AT_A_TIME);
    if (now.length === 0) break;
    const done = await forEachIsolated(context.log, { rows: now, atATime: AT_A_TIME }, async (row) => {
      return { id: row.webhook_id, ...(await sendDue(context, row)) };
    });
    const fine = new Set(done.filter(({ arrived, failed }) => arrived > 0 && failed === 0).map(({ id }) => id));
    for (const { webhook_id } of now) if (!fine.has(webhook_id)) failing.add(webhook_id);
    delivered += done.reduce((sum, { arrived }) => sum + arrived, 0);
  }
  return delivered;
}

async function sendDue(
  context: Sender,
  { tenant_id: tenantId, webhook_id: webhookId }: { tenant_id: string; webhook_id: string },
): Promise<{ arrived: number; failed: number }> {
  const claimed = await context.db.withTenant(tenantId, async (tx) => {
    const hook = await findWebhook(tx, webhookId);
    return { hook, deliveries: await claimDeliveries(tx, { webhookId, limit: AT_A_TIME, leaseMs: LEASE_MS }) };
  });
  const { hook, deliveries } = claimed;
  if (!hook) return { arrived: 0, failed: 0 };
  const secret = await secretOf(context, tenantId, secretNameOf(webhookId));
  const outcomes = await Promise.all(
    deliveries.map(async (delivery) => {
      const outcome = await attempt(context, { hook, secret, delivery });
      await settle(context, { tenantId, hook, delivery }, outcome);
      report(context, { tenantId, delivery }, outcome);
      return outcome.status === 'delivered';
    }),
  );
  const arrived = outcomes.filter(Boolean).length;
  return { arrived, failed: outcomes.length - arrived };
}

async function secretOf(context: Sender, tenantId: string, name: string): Promise<Attempt['secret']> {
  try {
    return (await readSecrets(context, tenantId, [name])).get(name);
  } catch (error) {
    if (error instanceof SecretUnreadableError) return error;
    throw error;
  }
}

interface Attempt {
  hook: WebhookRow;
  /** To sign with; undefined if there is none any more. */
  secret: string | SecretUnreadableError | undefined;
  delivery: ClaimedDelivery;
}

async function attempt(context: Sender, { hook, secret, delivery }: Attempt): Promise<DeliveryOutcome> {
  if (hook.status === 'disabled') return over('The webhook is disabled.');
  // A key of before may yet be given back to this process.
  if (secret instanceof SecretUnreadableError)
    return tryAgain(delivery, { responseStatus: undefined, error: UNREADABLE });
  if (secret === undefined) return over('The secret of the webhook is gone.');
  if (!delivery.event) return over('The event is not there any more.');
  const channel = channelOf(hook.url);
  if (!channel) return over('There is no channel for the URL of the webhook any more.');
  const { signal } = new AbortController();
  const limits = { maxBytes: 100_000, maxRedirects: 0, timeoutMs: TIMEOUT_MS, signal };
  try {
    const notice = noticeOf(delivery, delivery.event);
    const status = await channel.send(notice, { url: hook.url, secret, limits }, context.egress);
    if (status >= 200 && status < 300) {
      return { status: 'delivered', responseStatus: status, error: undefined, waitMs: 0 };
    }
    return tryAgain(delivery, { responseStatus: status, error: `The endpoint answered ${status}.` });
  } catch (error) {
    const isTold = error instanceof EgressError;
    if (!isTold) context.log.error({ err: error, webhook: hook.id }, 'a channel has failed');
    return tryAgain(delivery, { responseStatus: undefined, error: isTold ? error.message : 'The channel has failed.' });
  }
}

function report(
  { log, metrics }: Sender,
  { tenantId: tenant, delivery }: { tenantId: string; delivery: ClaimedDelivery },
  { status, responseStatus, error: cause, waitMs }: DeliveryOutcome,
): void {
  const outcome = status === 'pending' ? 'retried' : status;
  metrics.deliveries.inc({ outcome });
  if (status === 'delivered') return;
  const { id, run_id: run, seq, type } = delivery;
  const code = responseStatus === undefined ? 'not_delivered' : `status_${responseStatus}`;
  log.warn({ delivery: id, run, seq, type, tenant, outcome, code, cause, again_in_ms: waitMs }, 'delivery failed');
}

function noticeOf({ id, run_id, seq, type }: ClaimedDelivery, event: NonNullable<ClaimedDelivery['event']>): Notice {
  const { occurred_at, payload, ...about } = event;
  return { id, type, timestamp: new Date(occurred_at).toISOString(), data: { run_id, seq, ...about, payload } };
}

function over(error: string): DeliveryOutcome {
  return { status: 'failed', responseStatus: undefined, error, waitMs: 0 };
}

/** 5 s after the first attempt, twice that after each further one up to 6 h, give or take a quarter. */
function tryAgain(
  { attempts }: ClaimedDelivery,
  why: Pick<DeliveryOutcome, 'responseStatus' | 'error'>,
): DeliveryOutcome {
  if (attempts >= LIMITS.webhookAttempts) return { status: 'failed', ...why, waitMs: 0 };
  const backoffMs = Math.min(FIRST_WAIT_MS * 2 ** (attempts - 1), LONGEST_WAIT_MS);
  return { status: 'pending', ...why, waitMs: Math.round(backoffMs * (0.75 + Math.random() / 2)) };
}

const GONE = 410;
const UNREADABLE = 'The secret of the webhook cannot be read with the keys that Drover has.';

async function settle(
  context: Sender,
  { tenantId, hook, delivery }: { tenantId: string; hook: WebhookRow; delivery: ClaimedDelivery },
  outcome: DeliveryOutcome,
): Promise<void> {
  await context.db.withTenant(tenantId, async (tx) => {
    const failingMs = await finishDelivery(tx, { id: delivery.id, webhookId: hook.id }, outcome);
    const isGone = outcome.responseStatus === GONE;
    if (hook.status === 'disabled' || (!isGone && failingMs < LIMITS.webhookFailingHours * 3_600_000)) return;
    const disabledReason = isGone ? 'the endpoint answered 410' : 'it has failed for too long';
    await updateWebhook(tx, hook.id, { status: 'disabled', disabledReason });
    const details = { reason: disabledReason };
    await recordAudit(tx, { tenantId }, { action: 'webhook.disabled', target: ['webhook', hook.id], details });
  });
}
