/** Webhooks and their deliveries; `commit_run` adds a delivery for each subscribed event. */
import type { Database, Tx } from './database.ts';
import { fetchRows, selectFrom } from './query-builder.ts';

export interface WebhookRow {
  id: string;
  workspace_id: string | null;
  url: string;
  events: string[];
  description: string | null;
  status: 'active' | 'disabled';
  disabled_reason: string | null;
  /** Rounds in a row in which nothing arrived; until `next_at` it is left alone where these were enough. */
  failures: number;
  next_at: Date | null;
  created_at: Date;
  updated_at: Date;
}

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

const WEBHOOK = `id, workspace_id, url, events, description, status, disabled_reason, failures, next_at, created_at,
  updated_at`;
const DELIVERY = `id, webhook_id, run_id, seq, type, status, attempts, next_at, response_status, error, delivered_at,
  created_at`;

interface NewWebhook {
  id: string;
  tenantId: string;
  workspaceId?: string | undefined;
  url: string;
  events: readonly string[];
  description?: string | undefined;
}

export async function insertWebhook(tx: Tx, hook: NewWebhook): Promise<WebhookRow> {
  const [row] = await tx.query<WebhookRow>(
    `insert into webhooks (id, tenant_id, workspace_id, url, events, description, status)
     values ($1, $2, $3, $4, $5, $6, 'active') returning ${WEBHOOK}`,
    [hook.id, hook.tenantId, hook.workspaceId ?? null, hook.url, [...hook.events], hook.description ?? null],
  );
  if (!row) throw new Error('An inserted webhook did not come back.');
  return row;
}

/** Number of the tenant's webhooks. Concurrent callers wait until the transaction ends, so that none is created meanwhile. */
export async function countWebhooks(tx: Tx, tenantId: string): Promise<number> {
  await tx.query(`select pg_advisory_xact_lock(hashtextextended('drover:webhooks:' || $1, 0))`, [tenantId]);
  const [row] = await tx.query<{ count: number }>('select count(*) as count from webhooks where run_id is null');
  return row?.count ?? 0;
}

/** A webhook that is not for a single run; only of this workspace, if given. */
export async function findWebhook(tx: Tx, id: string, workspaceId?: string): Promise<WebhookRow | undefined> {
  const [row] = await fetchRows<WebhookRow>(
    tx,
    selectFrom(WEBHOOK, 'webhooks', [
      ['id', '=', id],
      ['workspace_id', '=', workspaceId],
    ]).whereNull('run_id'),
  );
  return row;
}

/** A page of webhooks, newest first. */
export async function listWebhooks(
  tx: Tx,
  page: { before?: string | undefined; limit: number; workspaceId?: string | undefined },
): Promise<WebhookRow[]> {
  const query = selectFrom(WEBHOOK, 'webhooks', [
    ['id', '<', page.before],
    ['workspace_id', '=', page.workspaceId],
  ]);
  return fetchRows<WebhookRow>(tx, query.whereNull('run_id').orderBy('id', 'desc').limit(page.limit));
}

interface WebhookChange {
  url?: string | undefined;
  events?: readonly string[] | undefined;
  description?: string | undefined;
  status?: WebhookRow['status'] | undefined;
}

/** Changes a webhook: absent fields stay. If it becomes active or gets another URL, it is tried at once, as if it had never failed. */
export async function updateWebhook(tx: Tx, id: string, change: WebhookChange): Promise<WebhookRow | undefined> {
  const [row] = await tx.query<WebhookRow>(
    `update webhooks set url = coalesce($2, url), events = coalesce($3, events), description = coalesce($4, description),
       status = coalesce($5, status), disabled_reason = case when $5 = 'active' then null else disabled_reason end,
       failing_since = case when $5 = 'active' or $2 <> url then null else failing_since end,
       failures = case when $5 = 'active' or $2 <> url then 0 else failures end,
       next_at = case when $5 = 'active' or $2 <> url then null else next_at end, updated_at = now()
     where id = $1 returning ${WEBHOOK}`,
    [
      id,
      change.url ?? null,
      change.events ? [...change.events] : null,
      change.description ?? null,
      change.status ?? null,
    ],
  );
  return row;
}

/** A webhook at the URL that a sender knows: what it learns there says nothing of another one. */
export type AskedWebhook = Pick<WebhookRow, 'id' | 'url'>;

/** Disables a webhook, with the reason; false if it already is, or has another URL. */
export async function disableWebhook(tx: Tx, { id, url }: AskedWebhook, reason: string): Promise<boolean> {
  const disabled = await tx.query(
    `update webhooks set status = 'disabled', disabled_reason = $3, updated_at = now()
       where id = $1 and url = $2 and status = 'active' returning id`,
    [id, url, reason],
  );
  return disabled.length > 0;
}

/** Deletes a webhook and its deliveries. */
export async function deleteWebhook(tx: Tx, id: string): Promise<void> {
  await tx.query('delete from webhook_deliveries where webhook_id = $1', [id]);
  await tx.query('delete from webhooks where id = $1', [id]);
}

/** A page of deliveries, newest first; `before` is the last one of the previous page. */
export async function listDeliveries(
  tx: Tx,
  filter: { webhookId: string; status?: string | undefined; before?: string | undefined; limit: number },
): Promise<DeliveryRow[]> {
  const query = selectFrom(DELIVERY, 'webhook_deliveries', [
    ['webhook_id', '=', filter.webhookId],
    ['status', '=', filter.status],
  ]);
  if (filter.before !== undefined) {
    const after = '(created_at, id) < ((select b.created_at from webhook_deliveries b where b.id = ?), ?::uuid)';
    void query.whereRaw(after, [filter.before, filter.before]);
  }
  return fetchRows<DeliveryRow>(tx, query.orderByRaw('created_at desc, id desc').limit(filter.limit));
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

interface DueWebhooks {
  /** Maximum number of a tenant's webhooks taken at a time, including those already taken. */
  perTenant: number;
  limit: number;
  /** If a sender dies, its webhook is free again after this time. */
  leaseMs: number;
}

/**
 * Takes webhooks with due deliveries, tenants in turn: the one of each tenant that has waited longest, then the second of
 * each, and so on. Pausing webhooks, and those held by a sender, are skipped.
 */
export async function takeDueWebhooks(
  db: Database,
  { perTenant, limit, leaseMs }: DueWebhooks,
): Promise<{ tenant_id: string; webhook_id: string }[]> {
  return db.asMaintenance((tx) =>
    tx.query(
      // From one webhook with unsent deliveries to the next, a look at the index each: neither webhooks without any nor the
      // other deliveries of one are read, whatever the statistics say.
      `with recursive unsent as (
         (select webhook_id, next_at from webhook_deliveries where status = 'pending' order by webhook_id, next_at limit 1)
         union all
         select d.webhook_id, d.next_at from unsent cross join lateral (
           select webhook_id, next_at from webhook_deliveries
             where status = 'pending' and webhook_id > unsent.webhook_id order by webhook_id, next_at limit 1) d),
       busy as (
         select tenant_id, count(*) as webhooks from webhooks where taken_until > clock_timestamp() group by tenant_id),
       due as (
         select w.id, w.taken_at, coalesce(b.webhooks, 0)
             + row_number() over (partition by w.tenant_id order by w.taken_at nulls first, w.id) as place
           from unsent join webhooks w on w.id = unsent.webhook_id left join busy b on b.tenant_id = w.tenant_id
           where unsent.next_at <= clock_timestamp()
             and (w.taken_until is null or w.taken_until <= clock_timestamp())
             and (w.next_at is null or w.next_at <= clock_timestamp())),
       first as (
         select id, row_number() over (order by place, taken_at nulls first) as turn from due where place <= $1
           order by turn limit $2),
       free as (
         select w.id, first.turn from webhooks w join first on first.id = w.id
           where w.taken_until is null or w.taken_until <= clock_timestamp() for update of w skip locked),
       taken as (
         update webhooks w set taken_until = clock_timestamp() + $3 * interval '1 ms', taken_at = clock_timestamp()
           from free where w.id = free.id returning w.tenant_id, w.id, free.turn)
       select tenant_id, id as webhook_id from taken order by turn`,
      [perTenant, limit, leaseMs],
    ),
  );
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

/** A webhook held by its sender. */
export interface HeldWebhook extends WebhookRow {
  /** For a push config (`db/push-configs.ts`): its run, its name, and the encrypted content of its messages. */
  run_id: string | null;
  push_id: string | null;
  token_key_id: string | null;
  token_sealed: Buffer | null;
}

/** Makes webhooks that were taken, but whose jobs were not sent, due again at once. */
export async function giveBackWebhooks(db: Database, ids: readonly string[]): Promise<void> {
  await db.asMaintenance((tx) => tx.query('update webhooks set taken_until = null where id = any($1::uuid[])', [ids]));
}

/** Locks a webhook for a sender that begins; undefined if it no longer exists. */
export async function holdWebhook(
  tx: Tx,
  { id, leaseMs }: { id: string; leaseMs: number },
): Promise<HeldWebhook | undefined> {
  const [row] = await tx.query<HeldWebhook>(
    `update webhooks set taken_until = clock_timestamp() + $2 * interval '1 ms' where id = $1
     returning ${WEBHOOK}, run_id, push_id, token_key_id, token_sealed`,
    [id, leaseMs],
  );
  return row;
}

/** Releases a webhook; with `waitMs` if nothing arrived: it pauses for that long. With another URL it keeps its own count and pause. */
export async function releaseWebhook(
  tx: Tx,
  { id, url }: AskedWebhook,
  { failures, waitMs }: { failures: number; waitMs: number },
): Promise<void> {
  await tx.query(
    `update webhooks set taken_until = null, failures = case when url = $2 then $3 else failures end,
       next_at = case when url <> $2 then next_at when $4 > 0 then clock_timestamp() + $4 * interval '1 ms' end where id = $1`,
    [id, url, failures, waitMs],
  );
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
       select id from webhook_deliveries where webhook_id = $1 and status = 'pending' and next_at <= clock_timestamp()
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
 * that was asked for once more meanwhile stays due; one that failed at another URL than the webhook's is due at once.
 */
export async function finishDelivery(
  tx: Tx,
  { hook, delivery }: { hook: AskedWebhook; delivery: MadeAttempt },
  { status, responseStatus, error, waitMs }: DeliveryOutcome,
): Promise<number> {
  const [row] = await tx.query<{ failing_ms: number }>(
    `update webhooks set failing_since = case when $3 then null else coalesce(failing_since, now()) end where id = $1 and url = $2
     returning coalesce(extract(epoch from now() - failing_since) * 1000, 0)::float8 as failing_ms`,
    [hook.id, hook.url, status === 'delivered'],
  );
  await tx.query(
    `update webhook_deliveries set status = $3, response_status = $4, error = $5,
       next_at = clock_timestamp() + $6 * interval '1 ms', delivered_at = case when $3 = 'delivered' then now() end
     where id = $1 and attempts = $2`,
    [delivery.id, delivery.attempts, status, responseStatus ?? null, error ?? null, row ? waitMs : 0],
  );
  return row?.failing_ms ?? 0;
}
