/** Deliveries to webhooks: claimed by a sender, and finished. `commit_run` adds one for each subscribed event. */
import type { Database, Tx } from './database.ts';
import { fetchRows, newestFirst, selectFrom } from './query-builder.ts';
import type { AskedWebhook } from './webhooks.ts';

export interface DeliveryRow {
  id: string;
  webhook_id: string;
  /** Null for notifications that are in no log. */
  run_id: string | null;
  seq: number | null;
  type: string;
  status: 'pending' | 'delivered' | 'failed';
  attempts: number;
  next_at: Date;
  response_status: number | null;
  error: string | null;
  delivered_at: Date | null;
  created_at: Date;
}

const DELIVERY = `id, webhook_id, run_id, seq, type, status, attempts, next_at, response_status, error, delivered_at,
  created_at`;

/** A page of deliveries, newest first; `before` is the last one of the previous page. */
export async function listDeliveries(
  tx: Tx,
  filter: { webhookId: string; status?: string | undefined; before?: string | undefined; limit: number },
): Promise<DeliveryRow[]> {
  const query = selectFrom(DELIVERY, 'webhook_deliveries d', [
    ['webhook_id', '=', filter.webhookId],
    ['status', '=', filter.status],
  ]);
  const page = newestFirst(query, { table: 'webhook_deliveries', alias: 'd', before: filter.before });
  return fetchRows<DeliveryRow>(tx, page.limit(filter.limit));
}

/** Schedules a delivery once more, at once, regardless of its webhook's failures; undefined if it does not exist. */
export async function redeliver(tx: Tx, of: { webhookId: string; id: string }): Promise<DeliveryRow | undefined> {
  const [row] = await tx.query<DeliveryRow>(
    `update webhook_deliveries set status = 'pending', attempts = 0, next_at = now() where id = $1 and webhook_id = $2
     returning ${DELIVERY}`,
    [of.id, of.webhookId],
  );
  if (row) await tx.query('update webhooks set next_at = null where id = $1', [of.webhookId]);
  return row;
}

const MOST_DUE = 100_000;

/**
 * The number of due unsent deliveries, counted up to 100,000, and for how many seconds the first has been due. Those of a
 * pausing webhook become due after its pause.
 */
export async function readDueDeliveries(db: Database): Promise<{ deliveries: number; age_seconds: number }> {
  const [row] = await db.asMaintenance((tx) =>
    tx.query<{ deliveries: number; age_seconds: number }>(
      // Compared with `now()`, a bound for the index: later retries come after it.
      `select count(*)::int as deliveries, coalesce(extract(epoch from now() - min(due)), 0)::float8 as age_seconds from (
         select greatest(d.next_at, w.next_at) as due from webhook_deliveries d join webhooks w on w.id = d.webhook_id
           where d.status = 'pending' and d.next_at <= now() and (w.next_at is null or w.next_at <= now())
           order by d.next_at limit $1) waiting`,
      [MOST_DUE],
    ),
  );
  return row ?? { deliveries: 0, age_seconds: 0 };
}

/** A delivery with its event, whose payload contains only the requested fields. */
export interface ClaimedDelivery {
  id: string;
  attempts: number;
  /** Database time. */
  claimed_at: Date;
  run_id: string | null;
  seq: number | null;
  type: string;
  /** The notification is in no log; it consists of its payload alone. */
  is_notice: boolean;
  event: {
    turn_id: string | null;
    step: number | null;
    actor: string;
    workspace_id: string;
    payload: Record<string, unknown>;
    occurred_at: string;
  } | null;
}

interface DueDeliveries {
  webhookId: string;
  limit: number;
  leaseMs: number;
  /** Fields of the payload to read, by type. Others may be large. */
  fields: Readonly<Record<string, readonly string[]>>;
}

/** Claims due deliveries of a webhook for `leaseMs`: those of a dead process are sent again after that. */
export async function claimDeliveries(
  tx: Tx,
  { webhookId, limit, leaseMs, fields }: DueDeliveries,
): Promise<ClaimedDelivery[]> {
  return tx.query<ClaimedDelivery>(
    `with due as (
       select id from webhook_deliveries where webhook_id = $1 and status = 'pending' and next_at <= now()
       order by next_at limit $2 for update skip locked), taken as (
       update webhook_deliveries d set attempts = attempts + 1, next_at = clock_timestamp() + $3 * interval '1 ms'
       from due where d.id = due.id returning d.id, d.attempts, d.run_id, d.seq, d.type, d.notice)
     select t.id, t.attempts, t.run_id, t.seq, t.type, t.notice is not null as is_notice, clock_timestamp() as claimed_at, coalesce(t.notice, (select jsonb_build_object('turn_id', e.turn_id, 'step', e.step, 'actor', e.actor, 'workspace_id',
         e.workspace_id, 'occurred_at', e.occurred_at, 'payload', (
           select coalesce(jsonb_object_agg(f.key, f.value), '{}') from jsonb_each(e.payload) f
             where ($4::jsonb)->e.type ? f.key))
       from run_events e where e.run_id = t.run_id and e.commit_seq >= t.seq and e.seq = t.seq order by e.commit_seq limit 1)) as event
     from taken t order by t.run_id, t.seq`,
    [webhookId, limit, leaseMs, JSON.stringify(fields)],
  );
}

type MadeAttempt = Pick<ClaimedDelivery, 'id' | 'attempts'>;

/** Returns a delivery whose attempt was aborted by its sender, and does not count: it is due again. */
export async function giveBackDelivery(tx: Tx, { id, attempts }: MadeAttempt): Promise<void> {
  await tx.query(
    `update webhook_deliveries set attempts = attempts - 1, next_at = clock_timestamp()
       where id = $1 and attempts = $2 and status = 'pending'`,
    [id, attempts],
  );
}

export interface DeliveryOutcome {
  status: DeliveryRow['status'];
  responseStatus: number | undefined;
  error: string | undefined;
  /** With `pending`: time until the next attempt. */
  waitMs: number;
}

/**
 * Records the end of an attempt on the delivery and its webhook; returns for how long the webhook has been failing. A delivery
 * that was asked for once more meanwhile stays due, or as that attempt has ended it: attempts are counted anew since. One that
 * failed at another URL than the webhook's is due at once. Locks the delivery before its webhook, as `redeliver` does.
 */
export async function finishDelivery(
  tx: Tx,
  { hook, delivery }: { hook: AskedWebhook; delivery: MadeAttempt },
  { status, responseStatus, error, waitMs }: DeliveryOutcome,
): Promise<number> {
  await tx.query(
    `update webhook_deliveries set status = $3, response_status = $4, error = $5, delivered_at = case when $3 = 'delivered' then now() end,
       next_at = clock_timestamp() + case when exists (select from webhooks where id = $7 and url = $8) then $6::float8 else 0 end * interval '1 ms'
     where id = $1 and attempts = $2 and status = 'pending'`,
    [delivery.id, delivery.attempts, status, responseStatus ?? null, error ?? null, waitMs, hook.id, hook.url],
  );
  const [row] = await tx.query<{ failing_ms: number }>(
    `update webhooks set failing_since = case when $3 then null else coalesce(failing_since, now()) end where id = $1 and url = $2
     returning coalesce(extract(epoch from now() - failing_since) * 1000, 0)::float8 as failing_ms`,
    [hook.id, hook.url, status === 'delivered'],
  );
  return row?.failing_ms ?? 0;
}
