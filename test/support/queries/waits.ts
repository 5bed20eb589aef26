/** Waits and signals, and what is left of runs beside their logs, as tests read and change them. */
import assert from 'node:assert/strict';
import type { Database } from '../../../db/database.ts';
import { row, rows, rowsAsOwner, rowsOfAll, tamper, type Owner, type Tenant } from './access.ts';

/** What a run still waits for. */
export function openWaits(tenant: Tenant, run: string): Promise<object[]> {
  return rows(tenant, 'select id from waits where run_id = $1 and closed_at is null', run);
}

/** A wait as it lies there. */
export function waitOf(tenant: Tenant, id: string): Promise<{ until: Date; created_at: Date; closed_at: Date | null }> {
  return row(tenant, 'select until, created_at, closed_at from waits where id = $1', id);
}

/** What any run of any tenant still waits for. */
export function openWaitsOfAll(db: Database): Promise<object[]> {
  return rowsOfAll(db, 'select id from waits where closed_at is null');
}

/** As if the time of what a run waits for were up. */
export function endWaits(owner: Owner, run: string): Promise<void> {
  return tamper(owner, 'update waits set until = now() where run_id = $1 and closed_at is null', run);
}

/** Timers of runs that are not there: one after another each minute from now on, or one each second until now. */
export async function addTimers(tenant: Tenant, of: { open: number; due: number }): Promise<void> {
  const add = (count: number, until: string) =>
    rows(
      tenant,
      `insert into waits (id, tenant_id, run_id, turn_id, type, until, created_at)
         select gen_random_uuid(), $1, gen_random_uuid(), gen_random_uuid(), 'timer', ${until}, now()
         from generate_series(1, $2::int) i`,
      tenant.tenantId,
      count,
    );
  await add(of.open, `now() + i * interval '1 minute'`);
  await add(of.due, `now() - i * interval '1 second'`);
  await rowsAsOwner(tenant.context.db, 'analyze waits');
}

/** Whether maintenance is refused to delete waits. */
export async function keepMaintenanceFromWaits(db: Database, isRefused: boolean): Promise<void> {
  const [act, preposition] = isRefused ? ['revoke', 'from'] : ['grant', 'to'];
  await rowsAsOwner(db, `${act} delete on waits ${preposition} drover_maintenance`);
}

/** How many rows there are of a run beside its log. */
export function countBeside(tenant: Tenant, run: string): Promise<Record<string, number>> {
  return row(
    tenant,
    `select (select count(*)::int from waits where run_id = $1 and closed_at is not null) as waits,
       (select count(*)::int from waits where run_id = $1 and closed_at is null) as open_waits,
       (select count(*)::int from signals where run_id = $1) as signals,
       (select count(*)::int from reservations where run_id = $1) as reservations`,
    run,
  );
}

/** As if a run had been made, and had ended, 40 days ago: its new id, which says when it was made. */
export async function ageRun(engine: Owner & Tenant, run: string): Promise<string> {
  const older = (id: string) =>
    `(left(replace(uuid_floor(current_date - 40)::text, '-', ''), 12) || right(replace(${id}::text, '-', ''), 20))::uuid`;
  const long = (column: string) => `${column} = ${column} - interval '40 days'`;
  const of = `run_id = ${older('run_id')}`;
  await tamper(engine, `update waits set id = ${older('id')}, ${of}, ${long('closed_at')} where run_id = $1`, run);
  await tamper(engine, `update signals set ${of} where run_id = $1`, run);
  await tamper(
    engine,
    `update reservations set ${of}, root_run_id = ${older('root_run_id')}, ${long('created_at')}, ${long('settled_at')} where run_id = $1`,
    run,
  );
  await tamper(engine, `update run_log set ${of}, ${long('occurred_at')} where run_id = $1`, run);
  await tamper(engine, `update runs set id = ${older('id')}, ${long('completed_at')} where id = $1`, run);
  const [made] = await rows<{ id: string }>(engine, `select ${older('$1')} as id`, run);
  assert.ok(made);
  return made.id;
}
