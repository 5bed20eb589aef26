/** Webhooks and their deliveries, as tests read and change them. */
import type { Database } from '../../../db/database.ts';
import { query } from '../template.ts';
import { row, rows, rowsAsOwner, type Tenant } from './access.ts';

/** As if the time until the next attempt of every delivery had passed, and what a dead sender held were free. */
export async function makeDeliveriesDue(databaseUrl: string): Promise<void> {
  await query(databaseUrl, 'update webhook_deliveries set next_at = now()');
  await query(databaseUrl, 'update webhooks set next_at = null, taken_until = null');
}

/** As if the time until the next attempt had passed, of deliveries and of the webhooks that pause. */
export async function letWebhooksPass(tenant: Tenant): Promise<void> {
  await letDeliveriesPass(tenant);
  await rows(tenant, 'update webhooks set next_at = now() where next_at is not null');
}

/** The same of deliveries alone, whoever holds them, so many seconds ago. */
export async function letDeliveriesPass(tenant: Tenant, sinceSeconds = 0): Promise<void> {
  await rows(tenant, `update webhook_deliveries set next_at = now() - $1 * interval '1 second'`, sinceSeconds);
}

/** Nothing of what waits is due any more. */
export async function stopWebhooks(tenant: Tenant): Promise<void> {
  await rows(tenant, `update webhooks set next_at = 'infinity'`);
}

/** What a sender has taken is free for others. */
export async function freeWebhooks(tenant: Tenant): Promise<void> {
  await rows(tenant, 'update webhooks set taken_until = null');
}

/** As if every delivery had so many attempts behind it. */
export async function setAttempts(tenant: Tenant, attempts: number): Promise<void> {
  await rows(tenant, 'update webhook_deliveries set attempts = $1', attempts);
}

/** As if every webhook had been failing for so many hours. */
export async function failForHours(tenant: Tenant, hours: number): Promise<void> {
  await rows(tenant, `update webhooks set failing_since = now() - $1 * interval '1 hour'`, hours);
}

/** As if the API that took a webhook were of a build with more channels than this one: any URL. */
export async function tellThrough(tenant: Tenant, id: string, url: string): Promise<void> {
  await rows(tenant, 'update webhooks set url = $2 where id = $1', id, url);
}

/** How long a webhook pauses, from now. */
export async function pauseOfWebhook(tenant: Tenant, id: string): Promise<number> {
  const sql = 'select extract(epoch from next_at - clock_timestamp())::float8 * 1000 as ms from webhooks where id = $1';
  return (await row<{ ms: number }>(tenant, sql, id)).ms;
}

/** How many push configurations a run has. */
export async function countPushConfigsOf(db: Pick<Database, 'asOwner'>, runId: string): Promise<number> {
  const sql = 'select count(*)::int as count from webhooks where run_id = $1';
  return (await rowsAsOwner<{ count: number }>(db, sql, runId))[0]?.count ?? 0;
}

/** What webhooks are told of beside the logs of runs, by type. */
export function noticesTold(db: Pick<Database, 'asOwner'>): Promise<{ type: string; notice: object }[]> {
  return rowsAsOwner(db, 'select type, notice from webhook_deliveries where notice is not null order by type');
}
