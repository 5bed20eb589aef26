/** Reads and locks the ledger, `tool_calls`; `commit_run` writes it. Outputs are read separately: see `outputs.ts`. */
import type { AttemptError } from '../core/ledger.ts';
import type { MessageOrigin, Trust } from '../core/origin.ts';
import type { RemoteWork } from '../core/tool.ts';
import type { CallState, CallStatus } from '../core/state.ts';
import type { Tx } from './database.ts';

export interface ToolCallRow {
  id: string;
  run_id: string;
  turn_id: string;
  step: number;
  place: number;
  tool_use_id: string;
  tool_id: string | null;
  tool_version: string | null;
  name: string;
  mode: CallState['mode'];
  arguments: Record<string, unknown>;
  effect: CallState['effect'];
  idempotency_key: string;
  recorded_from: string | null;
  status: CallStatus;
  attempt: number;
  is_error: boolean | null;
  error: AttemptError | null;
  output_bytes: number | null;
  latency_ms: number | null;
  /** Where the call's result comes from, and whether that is trusted; null in calls of older builds. */
  origin: MessageOrigin | null;
  trust: Trust | null;
  /** Events that had brought in untrusted content before the call was requested. */
  tainted_by: number[] | null;
  traceparent: string | null;
  created_at: Date;
  started_at: Date | null;
  finished_at: Date | null;
}

/** Without the output, which may be large and is read separately. */
const CALL_COLUMNS = `id, run_id, turn_id, step, place, tool_use_id, tool_id, tool_version, name, mode, arguments, effect,
  idempotency_key, recorded_from, status, attempt, is_error, error, output_bytes, latency_ms, origin, trust, tainted_by, traceparent, created_at, started_at, finished_at`;

const CALL = `select ${CALL_COLUMNS} from tool_calls`;

export async function listToolCalls(tx: Tx, runId: string, turnId: string): Promise<ToolCallRow[]> {
  return tx.query<ToolCallRow>(`${CALL} where run_id = $1 and turn_id = $2 order by step, place`, [runId, turnId]);
}

/** Calls that wait for the client to execute them. */
export async function listAwaitedCalls(tx: Tx, runId: string): Promise<ToolCallRow[]> {
  return tx.query<ToolCallRow>(
    `${CALL} where run_id = $1 and status = 'running' and id in (
       select w.id from waits w where w.run_id = $1 and w.closed_at is null and w.type = 'tool_results')
     order by step, place`,
    [runId],
  );
}

export async function findToolCall(tx: Tx, id: string): Promise<ToolCallRow | undefined> {
  const [row] = await tx.query<ToolCallRow>(`${CALL} where id = $1`, [id]);
  return row;
}

/** Several calls, in the order of their requests. */
export async function findToolCalls(tx: Tx, ids: readonly string[]): Promise<ToolCallRow[]> {
  return tx.query<ToolCallRow>(`${CALL} where id = any($1::uuid[]) order by step, place`, [ids]);
}

/**
 * How many calls of its turn came before a call when it was requested, as the gate counted them then: without those that were
 * denied by that time. Undefined for a call that is not in the ledger yet.
 */
export async function countCallsBefore(tx: Tx, callId: string): Promise<number | undefined> {
  const [row] = await tx.query<{ count: number }>(
    `select (select count(*)::int from tool_calls c where c.run_id = own.run_id and c.turn_id = own.turn_id
         and (c.step, c.place) < (own.step, own.place) and (c.status <> 'denied' or c.finished_at > own.created_at)) as count
       from tool_calls own where own.id = $1`,
    [callId],
  );
  return row?.count;
}

/** Of these calls, those under way whose lease has run out, with the attempt in the ledger. */
export async function listLeftCalls(tx: Tx, ids: readonly string[]): Promise<{ id: string; attempt: number }[]> {
  return tx.query(
    `select id, attempt from tool_calls where id = any($1::uuid[]) and status = 'running'
       and (lease_expires_at is null or lease_expires_at < clock_timestamp()) order by place`,
    [ids],
  );
}

/** `retry_in_ms`: the rest of the pause before its next attempt, else <= 0. */
interface PausedCallRow extends ToolCallRow {
  retry_in_ms: number;
}

const msUntil = (column: string) => `coalesce(extract(epoch from ${column} - clock_timestamp()) * 1000, 0)::int`;

export async function findPausedCall(tx: Tx, id: string): Promise<PausedCallRow | undefined> {
  const [row] = await tx.query<PausedCallRow>(
    `select ${CALL_COLUMNS}, ${msUntil('retry_at')} as retry_in_ms from tool_calls where id = $1`,
    [id],
  );
  return row;
}

interface LockedCallRow extends PausedCallRow {
  held_ms: number;
  claim_id: string | null;
  /** Work that the call has begun elsewhere; if the call has settled, work to be cancelled. */
  remote: RemoteWork | null;
}

/** Locks a call's row for a worker. `held_ms`: the rest of a lease, else <= 0. */
export async function lockToolCall(tx: Tx, id: string): Promise<LockedCallRow | undefined> {
  const [row] = await tx.query<LockedCallRow>(
    `select ${CALL_COLUMNS}, claim_id, remote, ${msUntil('lease_expires_at')} as held_ms, ${msUntil('retry_at')} as retry_in_ms from tool_calls
      where id = $1 for update`,
    [id],
  );
  return row;
}

export type OpenCall = Pick<ToolCallRow, 'id' | 'mode' | 'effect' | 'attempt' | 'error'> & {
  status: 'awaiting_approval' | 'pending' | 'running';
  remote: RemoteWork | null;
};

/** A run's unsettled calls. */
export async function listOpenCalls(tx: Tx, runId: string): Promise<OpenCall[]> {
  return tx.query<OpenCall>(
    `select id, mode, effect, attempt, error, status, remote from tool_calls
      where run_id = $1 and status in ('awaiting_approval', 'pending', 'running')`,
    [runId],
  );
}

/** For a settled call: stores the work still to be cancelled, or null if there is none. */
export async function keepRemote(tx: Tx, callId: string, remote: RemoteWork | null): Promise<void> {
  await tx.query(
    `update tool_calls set remote = $2::jsonb
      where id = $1 and remote is not null and status not in ('awaiting_approval', 'pending', 'running')`,
    [callId, remote && JSON.stringify(remote)],
  );
}
