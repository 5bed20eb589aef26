/** Webhooks: their settings, and whose turn it is. */
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

const WEBHOOK = `id, workspace_id, url, events, description, status, disabled_reason, failures, next_at, created_at,
  updated_at`;
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
