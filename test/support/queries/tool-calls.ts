/** The ledger, as tests read and change it. */
import type { Database } from '../../../db/database.ts';
import { row, rows, rowsAsOwner, tamper, type Owner, type Tenant } from './access.ts';

interface CallRow {
  status: string;
  attempt: number;
}

/** Of the run's only call. */
export function callOfRun(tenant: Tenant, run: string): Promise<CallRow> {
  return row<CallRow>(tenant, 'select status, attempt from tool_calls where run_id = $1', run);
}

export function callsOfRun(tenant: Tenant, run: string): Promise<CallRow[]> {
  return rows<CallRow>(tenant, 'select status, attempt from tool_calls where run_id = $1 order by place', run);
}

/** How the run's only call stands, with what came of it. */
export function endOfCall(tenant: Tenant, run: string): Promise<CallRow & { code: string | null; output: unknown }> {
  const sql = `select status, attempt, error->>'code' as code, output from tool_calls where run_id = $1`;
  return row(tenant, sql, run);
}

/** Whether nobody has a lease on the run's only call any more, by the clock of the database: it was asked for before it began there. */
export async function isCallLeaseOver(tenant: Tenant, run: string): Promise<boolean> {
  const sql = 'select coalesce(lease_expires_at <= clock_timestamp(), true) as over from tool_calls where run_id = $1';
  return (await row<{ over: boolean }>(tenant, sql, run)).over;
}

/** Leaves the ledger of a run without what its calls were asked for, as processes of 0.1.0 do. */
export async function forgetAsked(db: Database, run: string): Promise<void> {
  await rowsAsOwner(db, 'update tool_calls set asked = null where run_id = $1', run);
}

interface StoredCall {
  id: string;
  turn_id: string;
  step: number;
  place: number;
  tool_use_id: string;
  tool_id: string;
  name: string;
  mode: string;
  arguments: unknown;
  trust: string;
  tainted_by: number[] | null;
  status: string;
  attempt: number;
  error: { code: string; message: string } | null;
}

/** Every call of a run in order, with all but its output, which may be large. */
export function ledgerOfRun(tenant: Tenant, run: string): Promise<StoredCall[]> {
  return rows(
    tenant,
    `select id, turn_id, step, place, tool_use_id, tool_id, name, mode, arguments, trust, tainted_by, status, attempt, error
       from tool_calls where run_id = $1 order by step, place`,
    run,
  );
}

/** The id of a run's first call; nothing else of it is read. */
export async function firstCallOf(tenant: Tenant, run: string): Promise<string> {
  return (await row<{ id: string }>(tenant, 'select id from tool_calls where run_id = $1 limit 1', run)).id;
}

/** The id of a run's only queued call. */
export async function queuedCallOf(tenant: Tenant, run: string): Promise<string> {
  const found = await row<{ id: string }>(
    tenant,
    "select id from tool_calls where run_id = $1 and mode = 'queued'",
    run,
  );
  return found.id;
}

/** What is kept of each call of a run, in order. */
export function outputsOfRun(tenant: Tenant, run: string): Promise<{ output: unknown }[]> {
  return rows(tenant, 'select output from tool_calls where run_id = $1 order by step, place', run);
}

/** What came of the calls of one name, in order. */
export function resultsOf(
  tenant: Tenant,
  run: string,
  name: string,
): Promise<{ output: unknown; error: { code: string } | null }[]> {
  const sql = 'select output, error from tool_calls where run_id = $1 and name = $2 order by place';
  return rows(tenant, sql, run, name);
}

/** Whether a part of the only call's output is kept for the model, and how long the text under `b` is as a whole. */
export function splitOfOutput(tenant: Tenant, run: string): Promise<{ split: boolean; whole: number }> {
  const sql = `select model_output is not null as split, length(output->>'b') as whole from tool_calls where run_id = $1`;
  return row(tenant, sql, run);
}

/** As 0.1.0 stored outputs: in one piece. */
export function joinOutputs(owner: Owner, run: string): Promise<void> {
  return tamper(owner, 'update tool_calls set model_output = null where run_id = $1', run);
}

/** The same, with outputs of so many bytes. */
export function storeOutputsInOnePiece(owner: Owner, run: string, bytes: number): Promise<void> {
  return tamper(
    owner,
    `update tool_calls set output = to_jsonb(repeat('x', $2)), output_bytes = $2, model_output = null where run_id = $1`,
    run,
    bytes,
  );
}

/** Outputs of 5,000,000 bytes, which events refer to, and arguments of 1,000,000, which lie with the events. */
export function makeCallsLarge(owner: Owner, run: string): Promise<void> {
  return tamper(
    owner,
    `update tool_calls set output = to_jsonb(repeat('x', 5000000)), output_bytes = 5000000,
       arguments = jsonb_build_object('i', place, 'data', repeat('y', 1000000)) where run_id = $1`,
    run,
  );
}

/** As if a call's next attempt were due in a minute. */
export function pauseCall(owner: Owner, run: string): Promise<void> {
  return tamper(owner, `update tool_calls set retry_at = now() + interval '1 minute' where run_id = $1`, run);
}

/** As if a call's next attempt were due. */
export function endPause(owner: Owner, run: string): Promise<void> {
  return tamper(owner, 'update tool_calls set retry_at = null where run_id = $1', run);
}

/** As if another worker had claimed a call and given it back. */
export function endFirstAttempt(owner: Owner, run: string): Promise<void> {
  return tamper(owner, 'update tool_calls set retry_at = null, attempt = 1 where run_id = $1', run);
}

/** Behind the back of processes that know the run. */
export async function changeArguments(tenant: Tenant, run: string, args: object): Promise<void> {
  await rows(tenant, 'update tool_calls set arguments = $2 where run_id = $1', run, JSON.stringify(args));
}

/** A ledger that says other things than the events. */
export function rewriteCall(owner: Owner, run: string, to: { key: string; arguments: object }): Promise<void> {
  const sql = 'update tool_calls set idempotency_key = $2, arguments = $3 where run_id = $1';
  return tamper(owner, sql, run, to.key, JSON.stringify(to.arguments));
}

/** All that is stored of a run's only call, as text. */
export function wholeCall(tenant: Tenant, run: string): Promise<{ status: string; row: string }> {
  return row(tenant, 'select status, to_jsonb(k)::text as row from tool_calls k where run_id = $1', run);
}

/** Calls of a run in order, each with its children. */
export function delegationsOf(
  tenant: Tenant,
  run: string,
): Promise<{ status: string; code: string | null; children: number }[]> {
  return rows(
    tenant,
    `select status, error->>'code' as code, (select count(*)::int from runs c where c.parent_task_id = k.id) as children
       from tool_calls k where run_id = $1 order by step, place`,
    run,
  );
}

/** The `max_cost_tokens` of a delegation, whatever its tool allows. */
export function raiseCost(owner: Owner, run: string, to: { place: number; tokens: number }): Promise<void> {
  return tamper(
    owner,
    `update tool_calls set arguments = arguments || jsonb_build_object('max_cost_tokens', $3::numeric)
       where run_id = $1 and place = $2`,
    run,
    to.place,
    to.tokens,
  );
}
