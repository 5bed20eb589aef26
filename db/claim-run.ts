/** Claims a run, and reads all that a driver needs. See `db/functions/claim-run.sql`. */
import type { StoredBlock } from '../core/content.ts';
import type { NewEvent, PinnedLimits, PinnedTool, RunKind, RunStatus, StoredEvent } from '../core/events.ts';
import type { MessageOrigin, Trust } from '../core/origin.ts';
import type { RunConfig } from '../core/run-config.ts';
import type { CallStatus, RunState } from '../core/state.ts';
import { outputColumns, type OutputPart } from '../core/tool-output.ts';
import { resultOf, type Database, type Tx } from './database.ts';
import { readWholeOutput } from './outputs.ts';

type Columns = Record<string, unknown>;

/** Maximum size of log and messages in a claim's answer, since several claims share one answer. Nearly every run fits. */
const FIRST_PAGE_BYTES = 1024 * 1024;
/** Size of further pages: reading one blocks the process for some milliseconds (8 MiB: 80 ms). */
const PAGE_BYTES = 1024 * 1024;

/** The answer to a claim: rows as JSON, times as RFC 3339 strings. */
export interface ClaimedRun {
  ok: true;
  run: RunRow;
  checkpoint: CheckpointRow | null;
  /** The tenant's policy epoch. */
  policy_epoch: number;
  events: EventRow[];
  messages: MessageRow[];
  /** Unread messages before `messages`; absent if there are none, or they precede a cached position. */
  before?: UnreadMessages;
  /** Outcomes by call: of calls referred to by `messages`, and of those asked about. */
  outcomes: Record<string, CallOutcome>;
  /** Where to continue if the run exceeds one answer. See `completeRun`. */
  rest?: PageStart;
  /** Position at which `events` start if the cached position fits the log; null if the whole run is returned. */
  from: number | null;
}

/**
 * Messages that the driver need not read, since models do not get them any more: their number, estimated tokens, the chain
 * hash of the last one, and the token budget of the conversation for which they were cut.
 */
export interface UnreadMessages {
  messages: number;
  tokens: number;
  chain: string;
  budgetTokens: number;
}

/** No message is left out. */
export const ALL_READ: UnreadMessages = { messages: 0, tokens: 0, chain: '', budgetTokens: 0 };

/** A driver's cache of a run: the log up to `seq`, the number of messages, and calls that had not ended. */
export interface CachedPosition {
  seq: number;
  length: number;
  calls: string[];
}

type MessageQueued = Extract<NewEvent, { type: 'message.queued' }>['payload'];

/** What a run waits for, as its row has it: a provider since when, until when it is asked again, and why. */
export interface RunWait {
  type: string;
  since?: string;
  next_at?: string;
  error?: { code: string; message: string };
}

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
  /** The last queued message, and the id of the last one taken: a message waits if they differ. */
  queued: MessageQueued | null;
  dequeued_id: string | null;
  config: RunConfig;
  /** The client's own metadata. */
  metadata?: Record<string, string> | null | undefined;
  pinned: { tools: PinnedTool[]; limits?: PinnedLimits | undefined };
  keep_open: boolean;
  lineage: string;
  lineage_base: { lineage: string; length: number }[];
  base_length: number;
  length: number;
  steps: number;
  last_seq: number;
  /** Bytes of stored outputs of its calls. */
  output_bytes: number;
  fence: number;
  /** Leases that were lost since a driver last appended events. Absent if not yet created. */
  lost_leases?: number;
  dormant: boolean;
  /** What it waits for, apart from its calls. Absent if not yet created. */
  waiting_for?: RunWait | null;
  root_run_id: string;
  /** The run's parent, the parent's task it works on, and its depth below a run without a parent. */
  parent_run_id: string | null;
  parent_task_id: string | null;
  depth: number;
  /** Absent if not yet created. */
  created_at?: string;
  updated_at: string;
  forked_at_seq: number | null;
  /** The run that this one retries. */
  retried_from: string | null;
  /** Its number on its thread, from 1. */
  thread_place: number | null;
  traceparent: string | null;
  /** Set if its content is erased. Absent if not yet created. */
  erased_at?: string | null;
}

/** A state, and the `LOG_VERSION` of the build that saved it. */
export type StoredState = RunState & { log_version?: number };

export interface CheckpointRow {
  run_id: string;
  seq: number;
  id: string;
  parent_id: string | null;
  node: string;
  lineage: string;
  length: number;
  /** As stored. Valid if the hash matches. */
  state: StoredState;
  hash: string;
  created_at: string;
}

export interface EventRow extends StoredEvent {
  occurred_at: string;
}

/** The outcome of a call in the ledger so far. */
export interface CallOutcome {
  status: CallStatus;
  output: unknown;
  is_error: boolean | null;
  /** What the model gets, if not the output itself, which is then null. */
  content?: OutputPart[];
}

/** A call's outcome in a page; `is_whole`: its output is large and not split yet, and must be read separately. */
type PagedOutcome = CallOutcome & { is_whole?: true };

/** The start of a page, as returned by `run_page`. */
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
  /** Absent if implied by the role. */
  origin?: MessageOrigin;
  /** For messages about to be stored; never read back. */
  trust?: Trust;
}

export type ClaimResult =
  | ClaimedRun
  | { ok: false; why: 'missing' | 'beyond' | 'finished' | 'held' | 'suspect'; seq: number | null };

/**
 * Claims a run that nobody holds, and returns all that is needed to continue. `seq` is the position in the job; if it is
 * beyond the log's end (database restored from a backup), nothing is claimed.
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
  /** A run that has lost so many leases in a row is left as it is: `suspect`. */
  suspectFrom?: number | undefined;
}

/** A claim in the form `claim_run` takes. */
export function claimRequest({ leaseMs, suspectFrom, ...request }: RunClaim): Columns {
  return {
    ...request,
    lease_ms: leaseMs,
    suspect_from: suspectFrom,
    claim: true,
    window: true,
    page_bytes: FIRST_PAGE_BYTES,
  };
}

/** A claim within a commit, in the form `commit_run` takes. */
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
  /** Leaves out messages that models do not get any more, as a claim does. */
  window?: true | undefined;
}

/** Reads a whole run like a claim, without claiming it. */
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

/** Reads the rest of a large run, one transaction a page. Does nothing for others. */
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

/** A page and all that follow, with outcomes merged into messages. */
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

/** A page of a run, starting at `next`. */
async function readPage(tx: Tx, run: { tenant_id: string; id: string }, next: Columns): Promise<RunPage> {
  const asked = { tenant_id: run.tenant_id, run_id: run.id, next };
  return resultOf(
    await tx.query<{ result: RunPage }>('select read_run_page($1::jsonb) as result', [JSON.stringify(asked)]),
  );
}

function hasWhole(outcomes: Record<string, PagedOutcome>): boolean {
  return Object.values(outcomes).some((outcome) => outcome.is_whole);
}

/** Reads large unsplit outputs one by one, and keeps only what the model sees of each. */
async function splitWholes(within: Within, outcomes: Record<string, PagedOutcome>): Promise<void> {
  for (const [id, { is_whole: isWhole, ...outcome }] of Object.entries(outcomes)) {
    if (!isWhole) continue;
    const { model_output: content } = outputColumns(await within((tx) => readWholeOutput(tx, id)));
    outcomes[id] = { ...outcome, ...(content && { content }) };
  }
}

/** Merges outcomes into the messages of a claim's answer. */
export function withOutcomes(result: ClaimResult): ClaimResult {
  return result.ok ? { ...result, messages: result.messages.map((row) => showOutcomes(row, result.outcomes)) } : result;
}

/** A stored message with the outcomes of the calls it refers to; null if there are none. */
export function showOutcomes(row: MessageRow, outcomes: Record<string, CallOutcome>): MessageRow {
  const ids = row.content.flatMap((block) => ('tool_call_id' in block ? block.tool_call_id : []));
  const known = ids.flatMap((id) => (outcomes[id] ? [[id, outcomes[id]] as const] : []));
  return { ...row, outcomes: known.length > 0 ? Object.fromEntries(known) : null };
}
