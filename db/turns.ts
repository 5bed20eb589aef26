/** Reads turns, with what happened in them. */
import type { StoredBlock } from '../core/content.ts';
import type { TurnInput } from '../core/events.ts';
import type { AttemptError } from '../core/ledger.ts';
import type { TokenUsage } from '../core/model.ts';
import type { MessageOrigin, Trust } from '../core/origin.ts';
import type { Reading } from '../core/output-format.ts';
import type { RemoteWork } from '../core/tool.ts';
import type { CallState, CallStatus } from '../core/state.ts';
import { bytesOf } from '../core/tool-output.ts';
import type { Tx } from './database.ts';
import { pageOfSized, untilFull, type Page, type Sized } from './page-bytes.ts';

export interface TurnRow {
  id: string;
  run_id: string;
  number: number;
  status: 'running' | 'complete' | 'awaiting_tool' | 'awaiting_human' | 'failed' | 'cancelled';
  input: TurnInput;
  output: StoredBlock[] | null;
  /** How to read the value of an answer that had to fit a schema. */
  structured: Reading | null;
  stop_reason: string | null;
  error: { code: string; message: string } | null;
  checkpoint_id: string | null;
  steps: number;
  tokens_in: number;
  tokens_out: number;
  cost_usd: string | null;
  created_at: Date;
  completed_at: Date | null;
  /** What the model had said when the turn was cancelled or failed; not read while somebody waits for the turn. */
  partial?: string | null;
}

const TURN = `t.id, t.run_id, t.number, t.status, t.input, t.structured, t.stop_reason, t.error, t.checkpoint_id, t.steps, t.tokens_in,
    t.tokens_out, t.cost_usd, t.created_at, t.completed_at, m.content as output`;
const SIZED_TURN = `${TURN}, json_bytes(t.input) + coalesce(json_bytes(m.content), 0) as bytes`;
const TABLES = `turns t join runs r on r.id = t.run_id
  left join messages m on m.lineage = r.lineage and m.ordinal = t.output_ordinal`;

/** A turn without `partial` (see `wasCutOff`). One statement. */
export async function findTurnRow(tx: Tx, runId: string, turnId: string): Promise<TurnRow | undefined> {
  const [row] = await tx.query<TurnRow>(`select ${TURN} from ${TABLES} where t.run_id = $1 and t.id = $2`, [
    runId,
    turnId,
  ]);
  return row;
}

/** Whether the turn ended without an answer, so that it may have a `partial`. */
export const wasCutOff = ({ status, output }: Pick<TurnRow, 'status' | 'output'>) =>
  !output && (status === 'cancelled' || status === 'failed');

export async function findTurn(tx: Tx, runId: string, turnId: string): Promise<TurnRow | undefined> {
  const row = await findTurnRow(tx, runId, turnId);
  const [turn] = row ? await withPartials(tx, [row]) : [];
  return turn;
}

/** Adds `partial` to turns that were cut off; queries only if there are some. */
export async function withPartials<T extends Pick<TurnRow, 'id' | 'status' | 'output'>>(
  tx: Tx,
  turns: readonly T[],
): Promise<(T & { partial?: string | null })[]> {
  const ids = turns.filter(wasCutOff).map(({ id }) => id);
  const partials = ids.length > 0 ? await listPartials(tx, ids) : new Map<string, string>();
  return turns.map((turn) => ({ ...turn, partial: partials.get(turn.id) ?? null }));
}

/** Partial texts by turn. A cancelled turn's may be logged after the next turn has begun. */
async function listPartials(tx: Tx, turnIds: readonly string[]): Promise<Map<string, string>> {
  const rows = await tx.query<{ turn_id: string; partial: string }>(
    `with begun as materialized (
       select run_id, min(coalesce(started_seq, 0)) as seq from turns where id = any($1::uuid[]) group by run_id)
     select distinct on (e.turn_id) e.turn_id, e.payload->>'partial' as partial
       from begun join run_events e on e.run_id = begun.run_id and e.commit_seq >= begun.seq
      where e.turn_id = any($1::uuid[]) and e.type = 'model.failed' and e.payload->'partial' is not null
      order by e.turn_id, e.commit_seq desc, e.seq desc`,
    [turnIds],
  );
  return new Map(rows.map(({ turn_id: id, partial }) => [id, partial]));
}

/** A page of a run's turns, oldest first. */
export async function listTurns(
  tx: Tx,
  runId: string,
  page: { after?: number | undefined; metadata?: Record<string, string> | undefined; limit: number },
): Promise<Page<TurnRow>> {
  const turns = `select ${SIZED_TURN} from ${TABLES} where t.run_id = $1 and t.number > $2
    and ($4::jsonb is null or t.input->'metadata' @> $4::jsonb) order by t.number limit $3`;
  const metadata = page.metadata ? JSON.stringify(page.metadata) : null;
  const values = [runId, page.after ?? 0, page.limit + 1, metadata];
  const { rows, more } = pageOfSized(await tx.query<TurnRow & Sized>(untilFull(turns, 'number'), values), page.limit);
  const shown = pageOfSized((await withPartials(tx, rows)).map(withItsSize), page.limit);
  return { rows: shown.rows, more: more || shown.more };
}

function withItsSize<T extends Sized & { partial?: string | null }>(turn: T): T {
  return { ...turn, bytes: turn.bytes + bytesOf(turn.partial ?? '') };
}

/** The last turns of a run that fit on a page, oldest first, with their sizes. */
export async function listLastTurns(tx: Tx, runId: string, limit: number): Promise<(TurnRow & Sized)[]> {
  const turns = `select ${SIZED_TURN} from ${TABLES} where t.run_id = $1 order by t.number desc limit $2`;
  const rows = await tx.query<TurnRow & Sized>(untilFull(turns, 'number desc'), [runId, limit]);
  return pageOfSized(rows, limit).rows.toReversed();
}

export interface ModelCallRow {
  step: number;
  provider: string;
  model: string;
  stop_reason: string;
  tokens_in: number;
  tokens_out: number;
  usage: TokenUsage;
  recorded: boolean;
  cost_usd: string | null;
  latency_ms: number;
  created_at: Date;
  content: StoredBlock[] | null;
}

export async function listModelCalls(tx: Tx, runId: string, turnId: string): Promise<ModelCallRow[]> {
  return tx.query<ModelCallRow>(
    `select c.step, c.provider, c.model, c.stop_reason, c.tokens_in, c.tokens_out, c.usage, c.recorded, c.cost_usd, c.latency_ms,
       c.created_at, m.content
     from llm_calls c left join messages m on m.lineage = c.lineage and m.ordinal = c.length
     where c.run_id = $1 and c.turn_id = $2 order by c.seq`,
    [runId, turnId],
  );
}

/** The graph nodes that a turn has entered, in order, each with the step that follows. */
export async function listEnteredNodes(
  tx: Tx,
  runId: string,
  turnId: string,
): Promise<{ node: string; step: number }[]> {
  return tx.query(
    `select payload->>'node' as node, step from run_events
     where run_id = $1 and turn_id = $2 and type = 'node.entered' order by commit_seq, seq`,
    [runId, turnId],
  );
}

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
  created_at: Date;
  started_at: Date | null;
  finished_at: Date | null;
}

/** Without the output, which may be large and is read separately. */
const CALL_COLUMNS = `id, run_id, turn_id, step, place, tool_use_id, tool_id, tool_version, name, mode, arguments, effect,
  idempotency_key, recorded_from, status, attempt, is_error, error, output_bytes, latency_ms, origin, trust, tainted_by, created_at, started_at, finished_at`;
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

interface LockedCallRow extends ToolCallRow {
  held_ms: number;
  retry_in_ms: number;
  claim_id: string | null;
  /** Work that the call has begun elsewhere; if the call has settled, work to be cancelled. */
  remote: RemoteWork | null;
}

/** Locks a call's row for a worker. `held_ms` and `retry_in_ms` are the rest of a lease or a pause, else <= 0. */
export async function lockToolCall(tx: Tx, id: string): Promise<LockedCallRow | undefined> {
  const left = (column: string) => `coalesce(extract(epoch from ${column} - clock_timestamp()) * 1000, 0)::int`;
  const [row] = await tx.query<LockedCallRow>(
    `select ${CALL_COLUMNS}, claim_id, remote, ${left('lease_expires_at')} as held_ms, ${left('retry_at')} as retry_in_ms from tool_calls
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

/** Whether a key has requested a turn of a run, or of any run of a thread. */
export async function hasAskedFor(
  tx: Tx,
  of: { runId: string; keyId: string } | { threadId: string; keyId: string },
): Promise<boolean> {
  const [column, id] = 'runId' in of ? ['id', of.runId] : ['thread_id', of.threadId];
  const rows = await tx.query(
    `select 1 as asked from runs r join run_events e on e.run_id = r.id
      where r.${column} = $1 and e.type = 'turn.started' and e.payload->>'requested_by' = $2 limit 1`,
    [id, of.keyId],
  );
  return rows.length > 0;
}
