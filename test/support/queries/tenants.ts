/** Tenants, their keys and what is counted for them; and what maintenance has to do. */
import type { Database } from '../../../db/database.ts';
import { rows, rowsAsOwner, rowsOfAll, tamper, type Owner, type Tenant } from './access.ts';

export function allTenants(db: Database): Promise<{ id: string; name: string }[]> {
  return rowsOfAll(db, 'select id, name from tenants');
}

/** As if the rules of a tenant had changed. */
export function raisePolicyEpoch(owner: Owner, tenantId: string): Promise<void> {
  return tamper(owner, 'update tenants set policy_epoch = policy_epoch + 1 where id = $1', tenantId);
}

/** As if a key had expired a second ago, by the clock of the database. */
export async function expireKey(db: Pick<Database, 'asOwner'>, id: string): Promise<void> {
  const second = `clock_timestamp() - interval '1 second'`;
  await rowsAsOwner(db, `update api_keys set expires_at = ${second} where id = $1`, id);
}

/** As if a request with this key had been made 25 hours before. */
export async function ageIdempotencyKey(tenant: Tenant, key: string): Promise<void> {
  const sql = `update idempotency_keys set created_at = created_at - interval '25 hours' where key = $1`;
  await rows(tenant, sql, key);
}

/** As if a request had been cut off before its answer: what it has noted on the way stays. */
export async function forgetAnswer(tenant: Tenant, route: string): Promise<void> {
  await rows(tenant, 'delete from idempotency_keys where route = $1', route);
}

/** What is kept as the answers to requests. */
export function keptAnswers(db: Database): Promise<{ response: unknown }[]> {
  return rowsOfAll(db, 'select response from idempotency_keys');
}

/** Secrets that no key of this installation can read. */
export async function loseSecretKeys(tenant: Tenant): Promise<void> {
  await rows(tenant, `update secrets set key_id = 'a key that is lost'`);
}

/** As if no process had noted which keys are in use, as those of 0.1.0. */
export async function forgetKeyMarks(tenant: Tenant): Promise<void> {
  await rows(tenant, `delete from secrets where name like 'drover:key:%'`);
}

/** What requests are counted under. */
export function namesOfRates(db: Database): Promise<{ name: string }[]> {
  return rowsOfAll(db, 'select name from rate_counts');
}

/** As if the windows in which requests were counted had been over for two hours. */
export async function ageRates(db: Database): Promise<void> {
  await db.call({ name: 'age', text: `update rate_counts set until = now() - interval '2 hours'`, values: [] });
}

/** As if every act of maintenance were due, for that many seconds. */
export async function makeActsDue(db: Database, sinceSeconds = 0): Promise<void> {
  await rowsOfAll(db, `update maintenance_acts set due_at = clock_timestamp() - $1 * interval '1 s'`, sinceSeconds);
}

/** An act that is due now. */
export async function addAct(db: Database, name: string): Promise<void> {
  await rowsOfAll(db, 'insert into maintenance_acts values ($1, now())', name);
}

/** Titles that threads are to get. */
export function dueTitles(tenant: Tenant): Promise<object[]> {
  return rows(tenant, 'select * from due_titles');
}

/** No title can be written, until what is answered was called. */
export async function refuseTitles({ context: { db } }: Tenant): Promise<() => Promise<void>> {
  await rowsAsOwner(db, 'alter table threads add constraint no_titles check (title is null) not valid');
  return async () => {
    await rowsAsOwner(db, 'alter table threads drop constraint no_titles');
  };
}

/** A tenant that has deleted that many tools. */
export async function addTenantWithDeletedTools(db: Database, tenantId: string, tools: number): Promise<void> {
  await rowsAsOwner(db, "insert into tenants (id, name) values ($1, 't')", tenantId);
  await rowsAsOwner(
    db,
    `insert into tools (id, tenant_id, name, status, current_version)
       select gen_random_uuid(), $1, 't' || i, 'deleted', '1.0.0' from generate_series(1, $2::int) i`,
    tenantId,
    tools,
  );
}
