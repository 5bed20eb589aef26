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

/** An event that is added to a log. */
export interface LoggedColumns {
  type: string;
  schema_version: number;
  actor: string;
  turn_id?: string | undefined;
  step?: number | undefined;
  payload: Columns;
}

/** A message that is added to a conversation. Without an origin its role says it. */
export interface StoredMessage {
  ordinal: number;
  role: MessageRow['role'];
  content: StoredBlock[];
  chain: string;
  origin?: MessageOrigin | undefined;
  trust?: Trust | undefined;
}

/** A change of a ledger row, made only where the row is in one of the states `from` (and at `attempt`, if given). */
export interface CallChange {
  id: string;
  from: CallStatus[];
  attempt?: number;
  set: CallColumns;
  /** Lease from now, in ms. */
  lease_ms?: number;
  /** Tells the claim that takes the lease from any other of the same attempt. */
  claim_id?: string;
  /** Earliest time of the next attempt, in ms from now. */
  retry_ms?: number;
  /** Makes the change only if no pause is left, and answers the row. */
  claim_call?: true;
}

/** Columns of a call's row; how it ended and what it gave, as far as they are among them. */
type CallColumns = Columns &
  Partial<OutputColumns> & {
    status?: CallStatus;
    /** Who says the output; as the call was asked for where it is absent. */
    origin?: MessageOrigin;
    is_error?: boolean | null;
    error?: AttemptError | null;
    remote?: RemoteWork | null;
  };

/** A job to send once the change is committed. */
export type OutboxRow = {
  id: string;
  queue: string;
  payload: Columns & { tenantId: string };
  /** The job does not run before so many ms have passed, by the database's clock. */
  delay_ms?: number;
  /** The job that waits for this one, if it is sent with it: one that is named, or that of the change's position. */
  parent?: ParentJob | WaitingJob | { queue: string; at_position: true };
} & (
  | { job_id: string }
  /** The job's id and `payload.seq` follow from the position that the change brings the run to. */
  | { at_position: true }
);

export interface ParentJob {
  queue: string;
  job_id: string;
}

/** A job that waits in the queue for others already: one more may be put below it. */
export type WaitingJob = ParentJob & { waits: true };

/** A row of `tool_calls` as a claim answers it, with the versions that its run pins. */
export interface ClaimedCallRow {
  id: string;
  turn_id: string;
  step: number;
  name: string;
  effect: ToolEffect;
  attempt: number;
  idempotency_key: string;
  arguments: Record<string, unknown>;
  /** Events that had brought untrusted content when it was asked for. */
  tainted_by?: number[] | null;
  /** Work that the call has begun elsewhere. */
  remote?: RemoteWork | null;
  /** What became of the attempt before. */
  error?: AttemptError | null;
  pins: { agent_id: string; agent_version: string; tools: RunRow['pinned']['tools'] };
}

/** What an attempt needs of a row of the ledger. The idempotency key and the arguments are read from there alone. */
export type LedgerCall = Omit<ClaimedCallRow, 'pins' | 'attempt'>;

/** A row that is added to the ledger. */
export type NewCall = LedgerCall & CallColumns;

/** Something from outside that a call waits for, until then or for so long. */
export interface NewWait extends Wait {
  /** Id of the call that waits. */
  id: string;
  turn_id: string;
  until?: string;
  seconds?: number;
  /** The token of a webhook: its SHA-256 and its sealed form, in hex. */
  token?: { hash: string; key_id: string; sealed: string };
}

/** One change of one run: all of it or nothing. */
export interface RunChange {
  tenant_id: string;
  run_id: string;
  /** A driver's claim; absent for what the API and tool workers append under the row's lock. */
  fence?: number;
  /** Sequence number that the change builds on. */
  expect?: number;
  /** The tenant's policy epoch under which the calls of the change were gated; refused where it has advanced. */
  policy_epoch?: number;
  /** Made only where the run has not ended; for what appends to it and changes nothing else of its row. */
  open?: true;
  bump_fence?: boolean;
  /** Renews the driver's lease for so many ms. */
  lease_ms?: number;
  /** Gives the lease back. */
  release?: boolean;
  /** The run is dormant: nothing is to be done for it until something comes. A change that sends it a job ends that. */
  dormant?: true;
  /** The run waits, dormant, for the end of outages (`model_outages`), or until it gives up. */
  park?: { outages: string[]; until: string };
  create?: Columns;
  thread?: Columns;
  events: LoggedColumns[];
  messages?: StoredMessage[];
  runs: Required<Pick<RowChange, 'set' | 'add'>>;
  /** Row changes of the other projections, by table. */
  rows?: Record<string, RowChange[]>;
  new_calls?: NewCall[];
  calls?: CallChange[];
  /** What Drover did by itself, for the audit log. */
  audit?: { id: string; action: AuditAction; target_type: string; target_id: string; details: Columns }[];
  /** Waits to open. They are opened before any are closed, these included. */
  waits?: NewWait[];
  close_waits?: string[] | true;
  checkpoint?: Columns;
  outbox?: OutboxRow[];
  reservations?: ReservationChange[];
  /** The thread whose first turn has ended: it is to get a title. */
  title_of?: string;
  /** The thread of which another turn has ended: it is to get a title if none before that has completed. */
  title_if_first?: string;
  /** The turn that has ended: its agent is to learn from it. */
  learns_from?: { turn_id: string; agent_id: string };
  /** Jobs that are sent as well if no queued call of the run is open any more. */
  continuation?: OutboxRow | undefined;
  /** Claims the run instead of sending those jobs, if nobody holds it. */
  then_claim?: { lease_ms: number; known: CachedPosition | undefined };
  /** Refused where the run's stored outputs would come to more bytes. */
  output_limit?: number;
  /** The rate limiter of the model that is to be called: the answer says how long it backs off. */
  rate_limiter?: string;
}

/** The row changes of a change whose events mean nothing for any row. */
export const NO_ROWS: Pick<RunChange, 'runs'> = { runs: { set: {}, add: {} } };

/** Sets aside for the model call of a step, or settles what was set aside. Money is a decimal, null if unknown. */
export type ReservationChange =
  | {
      step: number;
      tokens: number;
      cost_usd: string | null;
      workspace_id: string;
      agent_id: string;
      root_run_id: string;
      /** Of a child: the runs above it. */
      chain?: string[];
    }
  | { step: number; settle: 'settled' | 'estimated'; tokens: number; cost_usd: string | null }
  /** `estimated`: at what was set aside. */
  | { step: number; settle: 'estimated' | 'released' };

interface Committed {
  ok: true;
  seq: number;
  fence: number;
  status: RunStatus;
  /** The database's time, RFC 3339. */
  at: string;
  /** No queued call of the run is open any more. */
  continued: boolean;
  claimed_call: ClaimedCallRow | null;
  /** How long nobody is to ask the model of `rate_limiter` yet; 0: it may be asked. */
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

/** As `commit_run` takes it, in JSON, which leaves out what is undefined: it keeps count of what the run's calls have stored. */
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

/** Payloads of a few events that are longer together, in characters, are read faster as jsonb. */
const LONG_PAYLOADS = { characters: 3000, mostEvents: 16 };

/** What Postgres refuses in jsonb (U+0000, half a surrogate pair), as JSON has it, or what looks like it: in a line it would be found when that is read. */
const DOUBTFUL = /\\u(0000|d[89a-f])/;

/** The row of `run_log` for the events of a commit, a line for each: see `db/functions/event-lines.sql`. */
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

/** Bytes of the outputs that a change stores. */
export function outputBytesOf({ calls = [], new_calls = [] }: Pick<RunChange, 'calls' | 'new_calls'>): number {
  const rows = [...calls.map(({ set }) => set), ...new_calls];
  return rows.reduce((sum, { output_bytes }) => sum + (output_bytes ?? 0), 0);
}

function withClaim(result: CommitResult): CommitResult {
  return result.ok && result.claimed ? { ...result, claimed: withOutcomes(result.claimed) } : result;
}

/** A change or a claim that waits for its result. */
export type Waiting = { reject: (error: unknown) => void } & (
  | { kind: 'commit'; of: RunChange; resolve: (result: CommitResult) => void }
  | { kind: 'claim'; of: RunClaim; resolve: (result: ClaimResult) => void }
);

/** Commits changes and claims of runs in one round trip and one transaction, and then gives each its result. */
export async function changeRuns(db: Database, items: readonly Waiting[]): Promise<void> {
  return sendAll(db, items, 'change_runs');
}

/** The same where one of them may be refused: that one gets its error, the others their results. */
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

/** `commitRun` within a transaction that holds more than the run's change. */
export async function commitRunIn(tx: Tx, change: RunChange): Promise<CommitResult> {
  return resultOf(
    await tx.query<{ result: CommitResult }>('select commit_run($1::jsonb) as result', [
      JSON.stringify(toRequest(change)),
    ]),
  );
}

/**
 * The same where nothing may be refused: that is an error, which takes the transaction back even where it is committed along
 * with this change, its last statement (`tx.last`).
 */
export async function mustCommitRun(tx: Tx, change: RunChange, how: 'query' | 'last'): Promise<Committed> {
  const text = 'select must_commit_run($1::jsonb) as result';
  return resultOf(await tx[how]<{ result: Committed }>(text, [JSON.stringify(toRequest(change))]));
}
