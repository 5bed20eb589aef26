/** Runs and turns, as tests read and change them. */
import assert from 'node:assert/strict';
import type { Database } from '../../../db/database.ts';
import { countRuns, findRunRow } from '../../../db/runs.ts';
import type { RunRow } from '../../../db/claim-run.ts';
import { listTurns, type TurnRow } from '../../../db/turns.ts';
import { row, rows, rowsAsOwner, rowsOfAll, tamper, type Owner, type Tenant } from './access.ts';

/** A run's row with the columns that drivers do not read. */
interface StoredRun extends RunRow {
  stop_reason: string | null;
  error: { code: string; message: string } | null;
  tokens_in: number;
  tokens_out: number;
  cost_usd: number | null;
  waiting_for: { type: string } | null;
}

export async function storedRun({ context, tenantId }: Tenant, run: string): Promise<StoredRun> {
  const found = await context.db.withTenant(tenantId, (tx) => findRunRow(tx, run));
  assert.ok(found, `no run ${run}`);
  return found as StoredRun;
}

export async function statusOfRun(tenant: Tenant, run: string): Promise<string> {
  return (await storedRun(tenant, run)).status;
}

export async function fenceOfRun(tenant: Tenant, run: string): Promise<number> {
  return (await storedRun(tenant, run)).fence;
}

/** Who drives a run: nobody where there is no lease. */
export function holdOfRun(
  tenant: Tenant,
  run: string,
): Promise<{ status: string; dormant: boolean; lease: Date | null }> {
  return row(tenant, 'select status, dormant, driver_lease_expires_at as lease from runs where id = $1', run);
}

/** Whether nobody has a lease on a run any more, by the clock of the database: it was asked for before it began there. */
export async function isLeaseOver(tenant: Tenant, run: string): Promise<boolean> {
  const sql = 'select coalesce(driver_lease_expires_at <= clock_timestamp(), true) as over from runs where id = $1';
  return (await row<{ over: boolean }>(tenant, sql, run)).over;
}

/** Whose a run is. */
export async function ownerOfRun(db: Database, run: string): Promise<{ tenant_id: string; workspace_id: string }> {
  const sql = 'select tenant_id, workspace_id from runs where id = $1';
  const [found] = await rowsOfAll<{ tenant_id: string; workspace_id: string }>(db, sql, run);
  assert.ok(found, `no run ${run}`);
  return found;
}

/** The runs of all tenants that somebody drives. */
export function heldRuns(db: Database): Promise<{ id: string }[]> {
  return rowsOfAll(db, 'select id from runs where driver_lease_expires_at is not null');
}

/** Runs that have not ended. */
export function unfinishedRuns(tenant: Tenant): Promise<{ id: string }[]> {
  return rows(tenant, `select id from runs where status not in ('completed', 'failed', 'cancelled')`);
}

export async function countRunsOf({ context, tenantId }: Tenant, agentId: string): Promise<number> {
  return context.db.withTenant(tenantId, (tx) => countRuns(tx, { agentId }));
}

/** Every status that a run has, once. */
export async function statusesOfRuns(tenant: Tenant): Promise<string[]> {
  const found = await rows<{ status: string }>(tenant, 'select distinct status from runs order by status');
  return found.map(({ status }) => status);
}

/** When runs have begun, the first one first. */
export function startsOfRuns(tenant: Tenant): Promise<{ at: Date }[]> {
  return rows(tenant, 'select started_at as at from runs where started_at is not null order by started_at');
}

/** The runs that work for a run, in the order in which they were made. */
export function childrenOfRun(
  tenant: Tenant,
  run: string,
): Promise<{ id: string; parent_task_id: string; status: string }[]> {
  return rows(tenant, 'select id, parent_task_id, status from runs where parent_run_id = $1 order by id', run);
}

/** The runs below a root, itself included, whose content is still there. */
export function unerasedRunsBelow(tenant: Tenant, root: string): Promise<{ id: string }[]> {
  return rows(tenant, 'select id from runs where root_run_id = $1 and erased_at is null', root);
}

/** So many copies of a run that waits, each with a copy of its call. */
export async function copyWaitingRun(owner: Owner, run: string, count: number): Promise<void> {
  await tamper(
    owner,
    `create table copies as select gen_random_uuid() as run, gen_random_uuid() as call from generate_series(1, ${count})`,
  );
  const copy = (table: string, ids: string, key: string) =>
    tamper(
      owner,
      `insert into ${table} select made.* from copies c, ${table} t,
         jsonb_populate_record(t, jsonb_build_object(${ids})) made where t.${key} = $1`,
      run,
    );
  await copy('runs', `'id', c.run, 'thread_id', c.run, 'lineage', c.run`, 'id');
  await copy('tool_calls', `'id', c.call, 'run_id', c.run`, 'run_id');
  for (const last of ['drop table copies', 'analyze runs', 'analyze tool_calls']) {
    await rowsAsOwner(owner.context.db, last);
  }
}

/** As if the turns of a run had ended two minutes before. */
export function ageTurns(owner: Owner, run: string): Promise<void> {
  return tamper(owner, `update turns set completed_at = completed_at - interval '2 minutes' where run_id = $1`, run);
}

/** As if a run had begun on another thread. */
export function moveRun(
  owner: Owner,
  run: string,
  { thread, place }: { thread: string; place: number },
): Promise<void> {
  return tamper(owner, 'update runs set thread_id = $2, thread_place = $3 where id = $1', run, thread, place);
}

/** As if a run had ended so many hours ago. */
export async function ageEnd(db: Pick<Database, 'asOwner'>, runId: string, hours: number): Promise<void> {
  const sql = `update runs set completed_at = now() - $2 * interval '1 hour' where id = $1`;
  await rowsAsOwner(db, sql, runId, hours);
}

/** As if nothing had happened to a run for two minutes. */
export function makeRunQuiet(owner: Owner, run: string): Promise<void> {
  return tamper(owner, `update runs set updated_at = now() - interval '2 minutes' where id = $1`, run);
}

/** As if nothing had happened to a run for more than an hour. */
export function ageRun(owner: Owner, run: string): Promise<void> {
  return tamper(owner, `update runs set updated_at = now() - interval '61 minutes' where id = $1`, run);
}

/** As if another driver had renewed its lease for an hour. */
export async function extendLease(tenant: Tenant, run: string): Promise<void> {
  const hour = `clock_timestamp() + interval '1 hour'`;
  await rows(tenant, `update runs set driver_lease_expires_at = ${hour} where id = $1`, run);
}

/** A row that says another thing than the log: `created`, after 99 steps. */
export function spoilRun(owner: Owner, run: string): Promise<void> {
  return tamper(owner, `update runs set steps = 99, status = 'created' where id = $1`, run);
}

export function pinTools(owner: Owner, run: string, pinned: { tools: unknown[] }): Promise<void> {
  return tamper(owner, 'update runs set pinned = $2 where id = $1', run, JSON.stringify(pinned));
}

/** The rows of a run and of its turns are lost; its log is not. */
export async function loseRunAndTurns(owner: Owner, run: string): Promise<void> {
  await tamper(owner, 'delete from runs where id = $1', run);
  await loseTurns(owner, run);
}

/** As if the run's turns had been written before turns said whose they are. */
export function unnameTurns(owner: Owner, run: string): Promise<void> {
  return tamper(owner, 'update turns set agent_id = null where run_id = $1', run);
}

export function loseTurns(owner: Owner, run: string): Promise<void> {
  return tamper(owner, 'delete from turns where run_id = $1', run);
}

/** The first turn has cost a dollar more than the log says. */
export function spoilFirstTurn(owner: Owner, run: string): Promise<void> {
  return tamper(owner, 'update turns set cost_usd = cost_usd + 1 where run_id = $1 and number = 1', run);
}

/** In order, with their answers. */
export async function turnsOfRun({ context, tenantId }: Tenant, run: string): Promise<TurnRow[]> {
  const page = await context.db.withTenant(tenantId, (tx) => listTurns(tx, run, { limit: 1000 }));
  return page.rows;
}

/** The id of a run's first turn. */
export async function firstTurnOf(tenant: Tenant, run: string): Promise<string> {
  const [first] = await turnsOfRun(tenant, run);
  assert.ok(first, `no turn of ${run}`);
  return first.id;
}

/** As if each turn of a run had been asked for with 1,500,000 characters. */
export function makeInputsLarge(owner: Owner, run: string): Promise<void> {
  return tamper(
    owner,
    `update turns set input = jsonb_build_object('message', repeat('x', 1500000)) where run_id = $1`,
    run,
  );
}

const LARGE = `jsonb_build_array(jsonb_build_object('type', 'text', 'text', repeat('x', 1000000)))`;

/** As if each message of a run had 1,000,000 characters. */
export function makeMessagesLarge(owner: Owner, run: string): Promise<void> {
  return tamper(owner, `update messages set content = ${LARGE} where run_id = $1`, run);
}

/** The same of each but the last, by which a checkpoint fits its hash. */
export function makeEarlierMessagesLarge(owner: Owner, run: string): Promise<void> {
  return tamper(
    owner,
    `update messages set content = ${LARGE} where run_id = $1 and ordinal < (select max(ordinal) from messages where run_id = $1)`,
    run,
  );
}

/** As if the state of each checkpoint of a run, but the last, which has to fit its hash, held 1,500,000 characters more. */
export function makeCheckpointsLarge(owner: Owner, run: string): Promise<void> {
  return tamper(
    owner,
    `update checkpoints set state = state || jsonb_build_object('custom', jsonb_build_object('x', repeat('x', 1500000)))
       where run_id = $1 and seq < (select max(seq) from checkpoints where run_id = $1)`,
    run,
  );
}

/** Sums over the model calls of a run; `timed` says whether each bears the time of its answer. */
export function sumsOfModelCalls(tenant: Tenant, run: string): Promise<object> {
  return row(
    tenant,
    `select count(*)::int as steps, sum(tokens_in)::int as tokens_in, sum(tokens_out)::int as tokens_out,
       array_agg(created_at order by seq) = array(select occurred_at from run_events e where e.run_id = $1
         and type = 'model.responded' order by e.seq) as timed from llm_calls where run_id = $1`,
    run,
  );
}

/** What each model call of a run has cost; null where no price is known. */
export function costsOfModelCalls(tenant: Tenant, run: string): Promise<{ cost_usd: string | null }[]> {
  return rows(tenant, 'select cost_usd from llm_calls where run_id = $1', run);
}

/** All that is stored in a projection, but the times of its writing. */
export function allOfProjection(tenant: Tenant, table: 'runs' | 'turns' | 'approvals'): Promise<object[]> {
  return rows(tenant, `select to_jsonb(t) - 'updated_at' as row from ${table} t order by id`);
}

/** As if a run had been idle for so much longer. */
export async function ageIdleRun(db: Pick<Database, 'asOwner'>, run: string, seconds: number): Promise<void> {
  await rowsAsOwner(
    db,
    `update runs set idle_since = idle_since - $2 * interval '1 second' where id = $1`,
    run,
    seconds,
  );
}

/** Lets nobody write to a run until something is done. */
export async function holdRuns<T>(db: Pick<Database, 'asOwner'>, done: () => Promise<T>): Promise<T> {
  return db.asOwner(async (client) => {
    await client.query('begin; lock table runs in share mode');
    try {
      return await done();
    } finally {
      await client.query('commit');
    }
  });
}

/** Lets nobody lock a run until something is done. */
export async function holdRun<T>(db: Pick<Database, 'asOwner'>, run: string, done: () => Promise<T>): Promise<T> {
  return db.asOwner(async (client) => {
    await client.query('begin');
    await client.query('select from runs where id = $1 for update', [run]);
    try {
      return await done();
    } finally {
      await client.query('commit');
    }
  });
}

/** As if another run had started this one. */
export function makeChildOf(owner: Owner, run: string, parent: string): Promise<void> {
  return tamper(owner, 'update runs set parent_run_id = $2, root_run_id = $2 where id = $1', run, parent);
}

/** As if a run had been waiting for its provider since 2020, by its row. */
export function backdateProviderWait(owner: Owner, run: string): Promise<void> {
  const since = `'{"since": "2020-01-01T00:00:00.000Z"}'`;
  const sql = `update runs set waiting_for = waiting_for || ${since} where id = $1 and waiting_for->>'type' = 'provider'`;
  return tamper(owner, sql, run);
}

/** Gives the request of a run another id, as if a process had stored it that does not know those of erased runs. */
export async function renameObjective(owner: Owner, run: string, requestId: string): Promise<void> {
  await tamper(owner, 'update objectives set request_id = $2 where run_id = $1', run, requestId);
}
