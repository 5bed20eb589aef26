/** Delivers events to a webhook, each at least once, through its URL's channel. */
import { backoffMs, jitteredMs } from '../../core/backoff.ts';
import { LIMITS } from '../../core/limits.ts';
import { SecretUnreadableError } from '../../core/secret-box.ts';
import {
  claimDeliveries,
  finishDelivery,
  giveBackDelivery,
  type ClaimedDelivery,
  type DeliveryOutcome,
} from '../../db/webhook-deliveries.ts';
import { disableWebhook, giveBackWebhooks, holdWebhook, releaseWebhook, type HeldWebhook } from '../../db/webhooks.ts';
import { linkSignals } from '../../lib/link-signals.ts';
import type { WebhookJob } from '../../jobs/webhooks.ts';
import type { Context } from '../governance/context.ts';
import { EgressError } from '../../tools/egress-error.ts';
import { channelOf } from './channels.ts';
import { A2A_PUSH, pushedState } from './channels/a2a-push.ts';
import type { Channel, Notice } from './channels/channel.ts';
import { openPushToken } from './push-configs.ts';
import { READ_FIELDS, toldPayload } from './told-fields.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { readSecrets } from '../tenants/secrets.ts';

const TIMEOUT_MS = 10_000;
/** Longer than an attempt can take; with the tick after it, less than the 20 s promised. Renewed for each batch of a turn. */
export const LEASE_MS = 18_000;
const AT_A_TIME = 10;
/** After this, other webhooks have their turn. */
const TURN_MS = 10_000;
/** After so many failures in a row, the endpoint counts as away. */
const AWAY_AFTER = 3;
const FIRST_WAIT_MS = 5000;
const LONGEST_WAIT_MS = 6 * 3_600_000;

/** Name under which a webhook's signing secret is stored; no client's secret can have it. */
export const secretNameOf = (webhookId: string) => `webhook:${webhookId}`;

type Sender = Pick<Context, 'db' | 'keyring' | 'egress' | 'log' | 'metrics'>;

/** Number of deliveries that arrived, and of others. */
interface Sent {
  delivered: number;
  failed: number;
}

/**
 * Gives a webhook its turn: sends what is due until nothing is left, the endpoint proves to be away, or the time is up. Failed
 * deliveries wait for their next attempt, while others go on. An endpoint that is away is paused for longer and longer, then
 * probed with a single delivery.
 */
export async function sendWebhook(context: Sender, of: WebhookJob, stop: AbortSignal): Promise<Sent> {
  const { signal, release } = linkSignals(stop);
  try {
    return await haveTurn(context, of, signal);
  } finally {
    release();
  }
}

async function haveTurn(context: Sender, of: WebhookJob, stop: AbortSignal): Promise<Sent> {
  const endsAtMs = performance.now() + TURN_MS;
  const sent: Sent = { delivered: 0, failed: 0 };
  let known: { hook: HeldWebhook; failures: number } | undefined;
  let isLeftAlone = false;
  while (performance.now() < endsAtMs && !stop.aborted) {
    const batch = await takeBatch(context, of, known);
    if (!batch) return sent;
    known = { hook: batch.hook, failures: batch.failures };
    if (batch.deliveries.length === 0) break;
    const ends = await Promise.all(batch.deliveries.map((delivery) => deliver(context, { ...batch, delivery, stop })));
    const delivered = ends.filter((end) => end === 'delivered').length;
    sent.delivered += delivered;
    sent.failed += ends.length - delivered;
    const missed = ends.filter((end) => end === 'not-delivered').length;
    if (delivered > 0) known.failures = 0;
    else if (missed > 0) known.failures += 1;
    isLeftAlone = delivered === 0 && missed > 0 && isAway(batch, missed);
    if (isLeftAlone) break;
  }
  if (!known) {
    await giveBackWebhooks(context.db, [of.webhookId]);
    return sent;
  }
  const { hook, failures } = known;
  const waitMs = isLeftAlone ? pauseMs(failures) : 0;
  await context.db.withTenant(of.tenantId, (tx) => releaseWebhook(tx, hook, { failures, waitMs }));
  return sent;
}

/** Whether the endpoint counts as away, after a round in which nothing arrived. If it was paused before, it still does. */
function isAway({ failures, hook }: { failures: number; hook: HeldWebhook }, missed: number): boolean {
  return (failures > 0 && hook.next_at !== null) || failures + missed >= AWAY_AFTER;
}

/** The next batch, with the webhook's current settings; undefined if the webhook is gone. */
async function takeBatch(
  context: Sender,
  { tenantId, webhookId }: WebhookJob,
  before: { hook: HeldWebhook; failures: number } | undefined,
) {
  const taken = await context.db.withTenant(tenantId, async (tx) => {
    const hook = await holdWebhook(tx, { id: webhookId, leaseMs: LEASE_MS });
    if (!hook) return undefined;
    // Failures of this turn say nothing of a URL that it has got since.
    const failures = before?.hook.url === hook.url ? before.failures : hook.failures;
    const limit = failures > 0 ? 1 : AT_A_TIME;
    const due = { webhookId, limit, leaseMs: LEASE_MS, fields: READ_FIELDS };
    return { tenantId, hook, failures, deliveries: await claimDeliveries(tx, due) };
  });
  return taken && { ...taken, secret: await secretOf(context, tenantId, taken.hook) };
}

/** Makes one attempt and records its outcome; `refused`: the endpoint was not asked, or its answer was not awaited. */
async function deliver(context: Sender, made: Attempt): Promise<'delivered' | 'not-delivered' | 'refused'> {
  const prepared = prepare(made);
  const outcome = 'refused' in prepared ? prepared.refused : await send(context, made, prepared);
  if (!outcome) {
    await context.db.withTenant(made.tenantId, (tx) => giveBackDelivery(tx, made.delivery));
    return 'refused';
  }
  await settle(context, made, outcome);
  if ('refused' in prepared) return 'refused';
  return outcome.status === 'delivered' ? 'delivered' : 'not-delivered';
}

async function secretOf(context: Sender, tenantId: string, hook: HeldWebhook): Promise<Attempt['secret']> {
  const name = secretNameOf(hook.id);
  try {
    if (hook.run_id !== null) return openPushToken(context.keyring, tenantId, hook);
    return (await readSecrets(context, tenantId, [name])).get(name)?.value;
  } catch (error) {
    if (error instanceof SecretUnreadableError) return error;
    throw error;
  }
}

interface Attempt {
  tenantId: string;
  hook: HeldWebhook;
  /** The signing secret, or the token that messages carry; undefined if it is gone. */
  secret: string | SecretUnreadableError | undefined;
  delivery: ClaimedDelivery;
  stop: AbortSignal;
}

type Ready = { channel: Channel; notice: Notice; secret: string };

/** What to send, or why nothing is sent. */
function prepare({ hook, secret, delivery }: Attempt): Ready | { refused: DeliveryOutcome } {
  if (hook.status === 'disabled') return { refused: over('The webhook is disabled.') };
  const refuse = (error: string) => ({ refused: tryAgain(delivery, { responseStatus: undefined, error }) });
  // Retried, since this process may get the earlier key back.
  if (secret instanceof SecretUnreadableError) return refuse(UNREADABLE);
  if (secret === undefined) return { refused: over('The secret of the webhook is gone.') };
  if (!delivery.event) return { refused: over('The event is not there any more.') };
  const notice = noticeOf(delivery, delivery.event);
  if (hook.run_id !== null) {
    // The task's state has not changed, so there is nothing to tell.
    return pushedState(notice) === undefined ? { refused: NOTHING_TO_TELL } : { channel: A2A_PUSH, notice, secret };
  }
  const channel = channelOf(hook.url);
  // Retried, since a process of a newer build may have it.
  if (!channel) return refuse(NO_CHANNEL);
  return { channel, notice, secret };
}

/** Sends the delivery; undefined if this process stopped meanwhile. */
async function send(
  context: Sender,
  { hook, delivery, stop }: Attempt,
  { channel, notice, secret }: Ready,
): Promise<DeliveryOutcome | undefined> {
  const limits = { maxBytes: 100_000, maxRedirects: 0, timeoutMs: TIMEOUT_MS, signal: stop };
  try {
    const status = await channel.send(
      notice,
      { url: hook.url, secret, at: delivery.claimed_at, limits },
      context.egress,
    );
    if (status >= 200 && status < 300) {
      return { status: 'delivered', responseStatus: status, error: undefined, waitMs: 0 };
    }
    return tryAgain(delivery, { responseStatus: status, error: `The endpoint answered ${status}.` });
  } catch (error) {
    if (stop.aborted) return undefined;
    const isTold = error instanceof EgressError;
    if (!isTold) context.log.error({ err: error, webhook: hook.id }, 'a channel has failed');
    return tryAgain(delivery, { responseStatus: undefined, error: isTold ? error.message : 'The channel has failed.' });
  }
}

function noticeOf(
  { id, run_id, seq, type, is_notice: isNotice }: ClaimedDelivery,
  event: NonNullable<ClaimedDelivery['event']>,
): Notice {
  const { occurred_at, ...about } = event;
  const payload = isNotice ? event.payload : toldPayload(type, event.payload);
  return { id, type, timestamp: new Date(occurred_at).toISOString(), data: { run_id, seq, ...about, payload } };
}

function over(error: string): DeliveryOutcome {
  return { status: 'failed', responseStatus: undefined, error, waitMs: 0 };
}

/** Schedules a retry: after 5 s, doubled with each attempt up to 6 h, with 25 % jitter. After the last attempt the delivery has failed. */
function tryAgain(
  { attempts }: ClaimedDelivery,
  why: Pick<DeliveryOutcome, 'responseStatus' | 'error'>,
): DeliveryOutcome {
  if (attempts >= LIMITS.webhookAttempts) return { status: 'failed', ...why, waitMs: 0 };
  return { status: 'pending', ...why, waitMs: waitMsAfter(attempts, LONGEST_WAIT_MS) };
}

/** How long a webhook is paused after so many failures in a row, in ms. */
function pauseMs(failures: number): number {
  const longestMs = LIMITS.webhookPauseSeconds * 1000;
  return failures === 0 ? 0 : Math.min(waitMsAfter(failures, longestMs), longestMs);
}

function waitMsAfter(failures: number, mostMs: number): number {
  return jitteredMs(backoffMs({ firstMs: FIRST_WAIT_MS, mostMs, attempt: failures }), 0.25, Math.random());
}

const GONE = 410;
const NOTHING_TO_TELL: DeliveryOutcome = {
  status: 'delivered',
  responseStatus: undefined,
  error: undefined,
  waitMs: 0,
};
const UNREADABLE = 'The secret of the webhook cannot be read with the keys that Drover has.';
const NO_CHANNEL = "The process that was to send it has no channel for the webhook's URL.";

/** Counts the attempt; logs it if it did not arrive. */
function report({ log, metrics }: Sender, { tenantId, hook, delivery }: Attempt, of: DeliveryOutcome): void {
  const outcome = of.status === 'pending' ? 'retried' : of.status;
  metrics.deliveries.inc({ outcome });
  if (of.status === 'delivered') return;
  const { id, run_id: run, seq, type, attempts } = delivery;
  const code = of.responseStatus === undefined ? 'not_delivered' : `status_${of.responseStatus}`;
  const about = { delivery: id, webhook: hook.id, run, seq, type, tenant: tenantId, attempts };
  log.warn({ ...about, outcome, code, cause: of.error, again_in_ms: of.waitMs }, 'delivery failed');
}

async function settle(context: Sender, made: Attempt, outcome: DeliveryOutcome): Promise<void> {
  const { tenantId, hook, delivery } = made;
  const about = { tenant: tenantId, webhook: hook.id, run: delivery.run_id, type: delivery.type };
  report(context, made, outcome);
  await context.db.withTenant(tenantId, async (tx) => {
    const failingMs = await finishDelivery(tx, made, outcome);
    const isGone = outcome.responseStatus === GONE;
    if (!isGone && failingMs < LIMITS.webhookFailingHours * 3_600_000) return;
    const reason = isGone ? 'the endpoint answered 410' : 'it has failed for too long';
    if (!(await disableWebhook(tx, hook, reason))) return;
    context.log.warn({ ...about, reason }, 'a webhook is disabled');
    await recordAudit(
      tx,
      { tenantId },
      { action: 'webhook.disabled', target: ['webhook', hook.id], details: { reason } },
    );
  });
}
