/** Taking hold of a run, and reading all that a driver needs of it. See `db/functions/claim-run.sql`. */
import type { StoredBlock } from '../core/content.ts';
import type { NewEvent, PinnedLimits, PinnedTool, RunKind, RunStatus, StoredEvent } from '../core/events.ts';
import type { MessageOrigin, Trust } from '../core/origin.ts';
import type { RunConfig } from '../core/run-config.ts';
import type { CallStatus, RunState } from '../core/state.ts';
import { outputColumns, type OutputPart } from '../core/tool-output.ts';
import { resultOf, type Database, type Tx } from './database.ts';
import { readWholeOutput } from './outputs.ts';

type Columns = Record<string, unknown>;

/** What a claim answers at most of a run's log and messages: several go together in one answer. Nearly every run fits. */
const FIRST_PAGE_BYTES = 1024 * 1024;
/** A page beyond it: reading it keeps the process for some milliseconds (8 MiB: for 80). */
const PAGE_BYTES = 1024 * 1024;

/** What a claim answers: rows as JSON, times as RFC 3339 strings. */
export interface ClaimedRun {
  ok: true;
  run: RunRow;
  checkpoint: CheckpointRow | null;
  /** The tenant's policy epoch. */
  policy_epoch: number;
  events: EventRow[];
  messages: MessageRow[];
  /** What comes before `messages` and was not read; absent where they begin with the first, or after a cached position. */
  before?: UnreadMessages;
  /** Outcomes by call: of those that `messages` refer to, and of those that were asked about. */
  outcomes: Record<string, CallOutcome>;
  /** Where to read on: the run is larger than one answer. See `completeRun`. */
  rest?: PageStart;
  /** Position that `events` start at if the cached position fits the log; null if the whole run is answered. */
  from: number | null;
}

/**
 * Messages of a conversation that its driver does not read, as no model is sent them any more: how many, their tokens
 * (estimated), the chain hash of the last one, and for how many tokens of conversation they were left out.
 */
export interface UnreadMessages {
  messages: number;
  tokens: number;
  chain: string;
  budgetTokens: number;
}

/** Nothing is left out. */
export const ALL_READ: UnreadMessages = { messages: 0, tokens: 0, chain: '', budgetTokens: 0 };

/** What a driver has cached of a run: the log up to `seq`, so many messages, and the calls that have not ended there. */
export interface CachedPosition {
  seq: number;
  length: number;
  calls: string[];
}

type MessageQueued = Extract<NewEvent, { type: 'message.queued' }>['payload'];

export interface RunRow {
  id: string;
  tenant_id: string;
  workspace_id: string;
  agent_id: string;
  agent_version: string;
  thread_id: string;
  kind: RunKind;
  status: RunStatus;
  open_turn_id: string | null;
  turn_count: number;
  /** The last message that was queued, and the id of the last one that was taken: it waits while they differ. */
  queued: MessageQueued | null;
  dequeued_id: string | null;
  config: RunConfig;
  /** What the client keeps with it. */
  metadata?: Record<string, string> | null | undefined;
  pinned: { tools: PinnedTool[]; limits?: PinnedLimits | undefined };
  keep_open: boolean;
  lineage: string;
  lineage_base: { lineage: string; length: number }[];
  base_length: number;
  length: number;
  steps: number;
  last_seq: number;
  /** Bytes of the outputs that its calls have stored. */
  output_bytes: number;
  fence: number;
  dormant: boolean;
  root_run_id: string;
  /** The run that it is a child of, the task that it works on there, and how far below a run without a parent it stands. */
  parent_run_id: string | null;
  parent_task_id: string | null;
  depth: number;
  /** Absent for one that is about to be created. */
  created_at?: string;
  updated_at: string;
  forked_at_seq: number | null;
  /** The run that it is a retry of. */
  retried_from: string | null;
  /** Its place among the runs of its thread, from 1. */
  thread_place: number | null;
  traceparent: string | null;
  /** Its content is gone. Absent for one that is about to be created. */
  erased_at?: string | null;
}

/** A state, and what the build that saved it knew of events (`LOG_VERSION`). */
export type StoredState = RunState & { log_version?: number };

export interface CheckpointRow {
  run_id: string;
  seq: number;
  id: string;
  parent_id: string | null;
  node: string;
  lineage: string;
  length: number;
  /** As it is stored: it is this state if the hash fits. */
  state: StoredState;
  hash: string;
  created_at: string;
}

export interface EventRow extends StoredEvent {
  occurred_at: string;
}

/** How a call in the ledger ended, as far as it has. */
export interface CallOutcome {
  status: CallStatus;
  output: unknown;
  is_error: boolean | null;
  /** What the model sees, where that is not the output itself, which is null then. */
  content?: OutputPart[];
}

/** What a page answers of a call; `is_whole`: its output is large and not split yet, and is to be read by itself. */
type PagedOutcome = CallOutcome & { is_whole?: true };

/** Where a page of a run begins, as `run_page` has answered it. */
interface PageStart {
  events_from: number | null;
  messages_from: number;
  events_to?: number;
  messages_to: number;
  /** Larger outputs are not read. */
  shown?: number | null;
  calls: string[];
}

interface RunPage {
  events: EventRow[];
  messages: MessageRow[];
  outcomes: Record<string, PagedOutcome>;
  rest?: PageStart;
}

export interface MessageRow {
  ordinal: number;
  role: 'user' | 'assistant';
  content: StoredBlock[];
  chain: string;
  outcomes: Record<string, CallOutcome> | null;
  /** Absent where the role says it. */
  origin?: MessageOrigin;
  /** Of a message that is about to be stored; nobody reads it back. */
  trust?: Trust;
}

export type ClaimResult =
  | ClaimedRun
  | { ok: false; why: 'missing' | 'beyond' | 'finished' | 'held'; seq: number | null };

/**
 * Claims a run for a driver where nobody holds it, and answers what is needed to go on. `seq` is the position that the
 * job speaks of: one beyond the log's end (a database restored from a backup) claims nothing.
 */
export async function claimRun(db: Database, claim: RunClaim): Promise<ClaimResult> {
  return load(db, claimRequest(claim), { inLine: true });
}

export interface RunClaim {
  tenant_id: string;
  run_id: string;
  seq: number;
  leaseMs: number;
  known?: CachedPosition | undefined;
}

/** As `claim_run` takes it. */
export function claimRequest({ leaseMs, ...request }: RunClaim): Columns {
  return { ...request, lease_ms: leaseMs, claim: true, window: true, page_bytes: FIRST_PAGE_BYTES };
}

/** The claim that a commit makes, as `commit_run` takes it. */
export function claimWithin(claim: Columns): Columns {
  return { ...claim, window: true, page_bytes: FIRST_PAGE_BYTES };
}

export interface ReadRequest {
  tenant_id: string;
  run_id: string;
  /** Reads from the newest checkpoint before this position. */
  beforeCheckpoint?: number | undefined;
  /** Reads only what came after this position. */
  known?: CachedPosition | undefined;
  /** Leaves out the messages that models are not sent any more, as a claim does. */
  window?: true | undefined;
}

/** Reads the same without claiming, and all of it. */
export async function loadRun(db: Database, run: ReadRequest): Promise<ClaimResult> {
  const loaded = await load(db, readRequest(run));
  return loaded.ok ? readRemainingPages(db, loaded) : loaded;
}

async function load(db: Database, request: Columns, how: { inLine?: true } = {}): Promise<ClaimResult> {
  const rows = await db.call<{ result: ClaimResult }>({
    name: 'claim_run',
    text: 'select claim_run($1::jsonb) as result',
    values: [JSON.stringify(request)],
    ...how,
  });
  return withOutcomes(resultOf(rows));
}

/** `loadRun` within a transaction. */
export async function loadRunIn(tx: Tx, run: ReadRequest): Promise<ClaimResult> {
  const loaded = withOutcomes(
    resultOf(
      await tx.query<{ result: ClaimResult }>('select claim_run($1::jsonb) as result', [
        JSON.stringify(readRequest(run)),
      ]),
    ),
  );
  return loaded.ok ? completeRunIn(tx, loaded) : loaded;
}

function readRequest({ beforeCheckpoint, ...request }: ReadRequest): Columns {
  return { ...request, claim: false, before_checkpoint: beforeCheckpoint, page_bytes: FIRST_PAGE_BYTES };
}

/** Reads what the answer to a claim has left: nothing, unless the run is large. Each page is a transaction of its own. */
export async function readRemainingPages(db: Database, claimed: ClaimedRun): Promise<ClaimedRun> {
  const within: Within = (work) => db.withTenant(claimed.run.tenant_id, work);
  return completed(within, claimed);
}

/** `completeRun` within a transaction. */
async function completeRunIn(tx: Tx, claimed: ClaimedRun): Promise<ClaimedRun> {
  return completed((work) => work(tx), claimed);
}

type Within = <T>(work: (tx: Tx) => Promise<T>) => Promise<T>;

async function completed(within: Within, claimed: ClaimedRun): Promise<ClaimedRun> {
  const { rest, ...first } = claimed;
  if (!rest && !hasWhole(first.outcomes)) return claimed;
  const page = await readPages(within, claimed.run, { ...first, ...(rest && { rest }) });
  return { ...first, ...page };
}

/** A page with all that comes after it, its messages with their outcomes. */
export async function readPages(
  within: Within,
  run: { tenant_id: string; id: string },
  first: RunPage,
): Promise<Omit<RunPage, 'rest'>> {
  const events = [...first.events];
  const messages = [...first.messages];
  const outcomes = { ...first.outcomes };
  await splitWholes(within, outcomes);
  for (let next = first.rest; next;) {
    const page = await within((tx) => readPage(tx, run, { ...next, bytes: PAGE_BYTES, least: true }));
    await splitWholes(within, page.outcomes);
    for (const event of page.events) events.push(event);
    for (const message of page.messages) messages.push(message);
    Object.assign(outcomes, page.outcomes);
    next = page.rest;
  }
  return { events, messages: messages.map((row) => showOutcomes(row, outcomes)), outcomes };
}

/** One page of a run, from where `next` says. */
async function readPage(tx: Tx, run: { tenant_id: string; id: string }, next: Columns): Promise<RunPage> {
  const asked = { tenant_id: run.tenant_id, run_id: run.id, next };
  return resultOf(
    await tx.query<{ result: RunPage }>('select read_run_page($1::jsonb) as result', [JSON.stringify(asked)]),
  );
}

function hasWhole(outcomes: Record<string, PagedOutcome>): boolean {
  return Object.values(outcomes).some((outcome) => outcome.is_whole);
}

/** Reads the large outputs that are not split yet one by one, and keeps what the model sees of each. */
async function splitWholes(within: Within, outcomes: Record<string, PagedOutcome>): Promise<void> {
  for (const [id, { is_whole: isWhole, ...outcome }] of Object.entries(outcomes)) {
    if (!isWhole) continue;
    const { model_output: content } = outputColumns(await within((tx) => readWholeOutput(tx, id)));
    outcomes[id] = { ...outcome, ...(content && { content }) };
  }
}

/** A claim's answer with the outcomes in their messages. */
export function withOutcomes(result: ClaimResult): ClaimResult {
  return result.ok ? { ...result, messages: result.messages.map((row) => showOutcomes(row, result.outcomes)) } : result;
}

/** A stored message with the outcomes of the calls that it refers to; null if it refers to none. */
export function showOutcomes(row: MessageRow, outcomes: Record<string, CallOutcome>): MessageRow {
  const ids = row.content.flatMap((block) => ('tool_call_id' in block ? block.tool_call_id : []));
  const known = ids.flatMap((id) => (outcomes[id] ? [[id, outcomes[id]] as const] : []));
  return { ...row, outcomes: known.length > 0 ? Object.fromEntries(known) : null };
}
