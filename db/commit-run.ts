/** The one way to write to a run. See `db/functions/commit-run.sql`. */
import type { StoredBlock } from '../core/content.ts';
import type { RunStatus } from '../core/events.ts';
import type { AttemptError } from '../core/ledger.ts';
import type { CallStatus } from '../core/state.ts';
import type { RemoteWork, ToolEffect } from '../core/tool.ts';
import type { OutputColumns } from '../core/tool-output.ts';
import type { MessageOrigin, Trust } from '../core/origin.ts';
import type { RowChange } from '../core/projections/projection.ts';
import type { AuditAction } from '../core/audit.ts';
import type { Wait } from '../core/waits.ts';
import {
  claimRequest,
  claimWithin,
  withOutcomes,
  type ClaimResult,
  type CachedPosition,
  type MessageRow,
  type RunClaim,
  type RunRow,
} from './claim-run.ts';
import { RefusedChangeError } from './database-errors.ts';
import { resultOf, type Database, type Tx } from './database.ts';

type Columns = Record<string, unknown>;

/** An event to add to a log. */
export interface LoggedColumns {
  type: string;
  schema_version: number;
  actor: string;
  turn_id?: string | undefined;
  step?: number | undefined;
  payload: Columns;
}

/** A message to add to a conversation. Default origin: implied by its role. */
export interface StoredMessage {
  ordinal: number;
  role: MessageRow['role'];
  content: StoredBlock[];
  chain: string;
  origin?: MessageOrigin | undefined;
  trust?: Trust | undefined;
}

/** A change of a ledger row, applied only if the row is in one of the states `from` (and at `attempt`, if given). */
export interface CallChange {
  id: string;
  from: CallStatus[];
  attempt?: number;
  set: CallColumns;
  /** Lease, in ms from now. */
  lease_ms?: number;
  /** Distinguishes this claim from others of the same attempt. */
  claim_id?: string;
  /** Earliest next attempt, in ms from now. */
  retry_ms?: number;
  /** Applies the change only if no pause is left, and returns the row. */
  claim_call?: true;
}

/** Columns of a call's row, including its outcome and output, if given. */
type CallColumns = Columns &
  Partial<OutputColumns> & {
    status?: CallStatus;
    /** Origin of the output; default: as the call was requested. */
    origin?: MessageOrigin;
    is_error?: boolean | null;
    error?: AttemptError | null;
    remote?: RemoteWork | null;
  };

/** A job to send after the commit. */
export type OutboxRow = {
  id: string;
  queue: string;
  payload: Columns & { tenantId: string };
  /** Delay before the job runs, in ms of database time. */
  delay_ms?: number;
  /** A job that waits for this one: by name, or the one of the change's position. Only if sent with it. */
  parent?: ParentJob | WaitingJob | { queue: string; at_position: true };
} & (
  | { job_id: string }
  /** The job's id and `payload.seq` are derived from the position after the change. */
  | { at_position: true }
);

export interface ParentJob {
  queue: string;
  job_id: string;
}

/** A job that already waits in the queue for others; another one may be added below it. */
export type WaitingJob = ParentJob & { waits: true };

/** A claimed row of `tool_calls`, with the versions pinned by its run. */
export interface ClaimedCallRow {
  id: string;
  turn_id: string;
  step: number;
  name: string;
  effect: ToolEffect;
  attempt: number;
  idempotency_key: string;
  arguments: Record<string, unknown>;
  /** Events that had brought untrusted content when it was requested. */
  tainted_by?: number[] | null;
  /** Work begun elsewhere by the call. */
  remote?: RemoteWork | null;
  /** The error of the previous attempt. */
  error?: AttemptError | null;
  /** Of the turn that requested it. */
  traceparent?: string | null | undefined;
  pins: { agent_id: string; agent_version: string; tools: RunRow['pinned']['tools'] };
}

/** What an attempt needs of a ledger row. The idempotency key and the arguments are read only from there. */
export type LedgerCall = Omit<ClaimedCallRow, 'pins' | 'attempt'>;

/** A row to add to the ledger. */
export type NewCall = LedgerCall & CallColumns;

/** A wait for something outside, until a time or for a duration. */
export interface NewWait extends Wait {
  /** Id of the waiting call. */
  id: string;
  turn_id: string;
  until?: string;
  seconds?: number;
  /** A webhook's token: SHA-256 and sealed form, in hex. */
  token?: { hash: string; key_id: string; sealed: string };
}

/** An atomic change of one run. */
export interface RunChange {
  tenant_id: string;
  run_id: string;
  /** Fence of the driver's claim; absent for changes by the API and tool workers, under the row's lock. */
  fence?: number;
  /** Sequence number that the change is based on. */
  expect?: number;
  /** The tenant's policy epoch when the change's calls were gated; refused if it has advanced. */
  policy_epoch?: number;
  /** Refuses the change if the run has ended. For changes that only append. */
  open?: true;
  bump_fence?: boolean;
  /** Renews the driver's lease, in ms. */
  lease_ms?: number;
  /** Gives the lease back. */
  release?: boolean;
  /** Nothing to do until something comes. A change that sends the run a job ends this. */
  dormant?: true;
  /** The run waits, dormant, until outages end (`model_outages`) or it gives up. */
  park?: { outages: string[]; until: string };
  create?: Columns;
  thread?: Columns;
  events: LoggedColumns[];
  messages?: StoredMessage[];
  runs: Required<Pick<RowChange, 'set' | 'add'>>;
  /** Row changes of other projections, by table. */
  rows?: Record<string, RowChange[]>;
  /** The events bring the run no further: leases lost before stay counted. */
  in_place?: true;
  new_calls?: NewCall[];
  calls?: CallChange[];
  /** Acts of Drover itself, for the audit log. */
  audit?: { id: string; action: AuditAction; target_type: string; target_id: string; details: Columns }[];
  /** Waits to open. This happens before any are closed, these included. */
  waits?: NewWait[];
  close_waits?: string[] | true;
  checkpoint?: Columns;
  outbox?: OutboxRow[];
  reservations?: ReservationChange[];
  /** The thread that needs a title, since its first turn has ended. */
  title_of?: string;
  /** A thread of which another turn has ended: it needs a title if no earlier turn has completed. */
  title_if_first?: string;
  /** A turn that has ended, from which its agent learns. */
  learns_from?: { turn_id: string; agent_id: string };
  /** Jobs to send as well if the run has no open queued call any more. */
  continuation?: OutboxRow | undefined;
  /** Instead of sending those jobs, claims the run if nobody holds it. */
  then_claim?: { lease_ms: number; known: CachedPosition | undefined };
  /** Refuses the change if the run's stored outputs would exceed this many bytes. */
  output_limit?: number;
  /** The rate limiter of the model to be called: the answer has its back-off. */
  rate_limiter?: string;
}

/** Row changes of events that affect no row. */
export const NO_ROWS: Pick<RunChange, 'runs'> = { runs: { set: {}, add: {} } };

/** Reserves for a step's model call, or settles the reservation. Money is a decimal, null if unknown. */
export type ReservationChange =
  | {
      step: number;
      tokens: number;
      cost_usd: string | null;
      workspace_id: string;
      agent_id: string;
      root_run_id: string;
      /** For a child: the runs above it. */
      chain?: string[];
    }
  /** `fence`: of the claim that reserved, if another one has ended it. */
  | { step: number; settle: 'settled' | 'estimated'; tokens: number; cost_usd: string | null; fence?: number }
  /** `estimated`: at the reserved amounts. */
  | { step: number; settle: 'estimated' | 'released'; fence?: number };

interface Committed {
  ok: true;
  seq: number;
  fence: number;
  status: RunStatus;
  /** Database time, RFC 3339. */
  at: string;
  /** The run has no open queued call any more. */
  continued: boolean;
  claimed_call: ClaimedCallRow | null;
  /** Remaining back-off of the model of `rate_limiter`, in ms; 0: none. */
  back_off_ms?: number;
  claimed?: ClaimResult;
}

export type CommitResult =
  | Committed
  | { ok: false; why: 'finished' }
  | { ok: false; why: 'missing' }
  | { ok: false; why: 'policy_epoch' }
  | { ok: false; why: 'run_output_limit' }
  | { ok: false; why: 'fence'; fence: number }
  | { ok: false; why: 'behind'; seq: number };

/** Commits a change in one round trip and one transaction. */
export async function commitRun(db: Database, change: RunChange, how: { inLine?: true } = {}): Promise<CommitResult> {
  const rows = await db.call<{ result: CommitResult }>({
    name: 'commit_run',
    text: 'select commit_run($1::jsonb) as result',
    values: [JSON.stringify(toRequest(change))],
    ...how,
  });
  return withClaim(resultOf(rows));
}

/** The JSON form that `commit_run` takes, without undefined values, with the bytes of outputs stored. */
function toRequest(change: RunChange): Columns {
  const { events, rows = {}, then_claim, new_calls } = change;
  const output_bytes = outputBytesOf(change);
  const others = Object.entries(rows).filter(([table]) => table !== 'turns');
  return {
    ...change,
    events: undefined,
    log: events.length > 0 ? toLogRow(events) : undefined,
    turns: rows['turns'],
    rows: others.length > 0 ? Object.fromEntries(others) : undefined,
    then_claim: then_claim && claimWithin(then_claim),
    output_bytes: output_bytes > 0 ? output_bytes : undefined,
    copies_outputs: new_calls?.some(({ copies_output }) => copies_output) ? true : undefined,
  };
}

/** Payloads larger than this in total, in few events, are read faster as jsonb. */
const LONG_PAYLOADS = { characters: 3000, mostEvents: 16 };

/** JSON escapes that jsonb refuses (U+0000, half a surrogate pair), or lookalikes. In a line, they would be noticed only on reading. */
const DOUBTFUL = /\\u(0000|d[89a-f])/;

/** The row of `run_log` for a commit's events, one line each: see `db/functions/event-lines.sql`. */
function toLogRow(events: RunChange['events']): Columns {
  const turn_id = events.find((event) => event.turn_id !== undefined)?.turn_id;
  const heads = events.map((event) => headOf(event, turn_id));
  const payloads = events.map(({ payload }) => JSON.stringify(payload));
  const characters = payloads.reduce((sum, { length }) => sum + length, 0);
  const isLong = characters > LONG_PAYLOADS.characters && events.length <= LONG_PAYLOADS.mostEvents;
  const row = { count: events.length, turn_id };
  if (isLong || payloads.some((payload) => DOUBTFUL.test(payload))) {
    return { ...row, events: heads.join('\n'), payload: events.map(({ payload }) => payload) };
  }
  return { ...row, events: heads.map((head, index) => `${head} ${payloads[index]}`).join('\n') };
}

function headOf({ type, schema_version, step, actor, turn_id }: LoggedColumns, rowTurn: string | undefined): string {
  const turn = turn_id === rowTurn ? '' : ` ${turn_id ?? '-'}`;
  return `${type} ${schema_version} ${step ?? '-'} ${actor}${turn}`;
}

/** Bytes of outputs stored by a change. */
export function outputBytesOf({ calls = [], new_calls = [] }: Pick<RunChange, 'calls' | 'new_calls'>): number {
  const rows = [...calls.map(({ set }) => set), ...new_calls];
  return rows.reduce((sum, { output_bytes }) => sum + (output_bytes ?? 0), 0);
}

function withClaim(result: CommitResult): CommitResult {
  return result.ok && result.claimed ? { ...result, claimed: withOutcomes(result.claimed) } : result;
}

/** A change or claim waiting for its result. */
export type Waiting = { reject: (error: unknown) => void } & (
  | { kind: 'commit'; of: RunChange; resolve: (result: CommitResult) => void }
  | { kind: 'claim'; of: RunClaim; resolve: (result: ClaimResult) => void }
);

/** Applies changes and claims in one round trip and one transaction, then delivers each result. */
export async function changeRuns(db: Database, items: readonly Waiting[]): Promise<void> {
  return sendAll(db, items, 'change_runs');
}

/** Like `changeRuns`, but if one is refused, it alone gets its error, and the others their results. */
export async function changeRunsApart(db: Database, items: readonly Waiting[]): Promise<void> {
  return sendAll(db, items, 'change_runs_apart');
}

type Refused = { error: { code: string; message: string } };

async function sendAll(
  db: Database,
  items: readonly Waiting[],
  name: 'change_runs' | 'change_runs_apart',
): Promise<void> {
  const rows = await db.call<{ result: object[] }>({
    name,
    text: `select ${name}($1::jsonb) as result`,
    values: [JSON.stringify(items.map((item) => (item.kind === 'claim' ? claimRequest(item.of) : toRequest(item.of))))],
    inLine: true,
  });
  const results = resultOf(rows);
  if (results.length !== items.length) throw new Error(`${name} answered another number of results`);
  for (const [index, item] of items.entries()) {
    const result = results[index];
    if (result && 'error' in result) item.reject(new RefusedChangeError((result as Refused).error));
    else if (item.kind === 'claim') item.resolve(withOutcomes(result as ClaimResult));
    else item.resolve(withClaim(result as CommitResult));
  }
}

/** `commitRun` as part of a larger transaction. */
export async function commitRunIn(tx: Tx, change: RunChange): Promise<CommitResult> {
  return resultOf(
    await tx.query<{ result: CommitResult }>('select commit_run($1::jsonb) as result', [
      JSON.stringify(toRequest(change)),
    ]),
  );
}

/**
 * Like `commitRunIn`, but a refusal throws. This rolls back the transaction even if it is committed with this change as its
 * last statement (`tx.last`).
 */
export async function mustCommitRun(tx: Tx, change: RunChange, how: 'query' | 'last'): Promise<Committed> {
  const text = 'select must_commit_run($1::jsonb) as result';
  return resultOf(await tx[how]<{ result: Committed }>(text, [JSON.stringify(toRequest(change))]));
}
