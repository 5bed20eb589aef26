/** Taking hold of a run, and reading all that a driver needs of it. See `db/functions/claim-run.sql`. */
import type { StoredBlock } from '../core/content.ts';
import type { PinnedTool, RunStatus, StoredEvent } from '../core/events.ts';
import type { RunConfig } from '../core/run-config.ts';
import type { CallStatus, RunState } from '../core/state.ts';
import { resultOf, type Database, type Tx } from './database.ts';

type Columns = Record<string, unknown>;

/** What a claim answers: rows as JSON, times as RFC 3339 strings. */
export interface ClaimedRun {
  ok: true;
  run: RunRow;
  checkpoint: CheckpointRow | null;
  /** The tenant's policy epoch. */
  policy_epoch: number;
  events: EventRow[];
  messages: MessageRow[];
  /** Outcomes by call: of those that `messages` refer to, and of those that were asked about. */
  outcomes: Record<string, CallOutcome>;
  /** Position that `events` start at if the cached position fits the log; null if the whole run is answered. */
  from: number | null;
}

/** What a driver has cached of a run: the log up to `seq`, so many messages, and the calls that have not ended there. */
export interface CachedPosition {
  seq: number;
  length: number;
  calls: string[];
}

export interface RunRow {
  id: string;
  tenant_id: string;
  workspace_id: string;
  agent_id: string;
  agent_version: string;
  thread_id: string;
  status: RunStatus;
  open_turn_id: string | null;
  turn_count: number;
  config: RunConfig;
  pinned: { tools: PinnedTool[] };
  keep_open: boolean;
  lineage: string;
  lineage_base: { lineage: string; length: number }[];
  base_length: number;
  length: number;
  steps: number;
  last_seq: number;
  fence: number;
  dormant: boolean;
  root_run_id: string;
  forked_at_seq: number | null;
  traceparent: string | null;
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
}

export interface MessageRow {
  ordinal: number;
  role: 'user' | 'assistant';
  content: StoredBlock[];
  chain: string;
  outcomes: Record<string, CallOutcome> | null;
}

export type ClaimResult =
  | ClaimedRun
  | { ok: false; why: 'missing' | 'beyond' | 'finished' | 'held'; seq: number | null };

/**
 * Claims a run for a driver where nobody holds it, and answers what is needed to go on. `seq` is the position that the
 * job speaks of: one beyond the log's end (a database restored from a backup) claims nothing.
 */
export async function claimRun(db: Database, claim: RunClaim): Promise<ClaimResult> {
  return load(db, claimRequest(claim));
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
  return { ...request, lease_ms: leaseMs, claim: true };
}

export interface ReadRequest {
  tenant_id: string;
  run_id: string;
  /** Reads from the newest checkpoint before this position. */
  beforeCheckpoint?: number | undefined;
  /** Reads only what came after this position. */
  known?: CachedPosition | undefined;
}

/** Reads the same without claiming. */
export async function loadRun(db: Database, run: ReadRequest): Promise<ClaimResult> {
  return load(db, readRequest(run));
}

async function load(db: Database, request: Columns): Promise<ClaimResult> {
  const rows = await db.call<{ result: ClaimResult }>({
    name: 'claim_run',
    text: 'select claim_run($1::jsonb) as result',
    values: [JSON.stringify(request)],
  });
  return withOutcomes(resultOf(rows));
}

/** `loadRun` within a transaction. */
export async function loadRunIn(tx: Tx, run: ReadRequest): Promise<ClaimResult> {
  return withOutcomes(
    resultOf(
      await tx.query<{ result: ClaimResult }>('select claim_run($1::jsonb) as result', [
        JSON.stringify(readRequest(run)),
      ]),
    ),
  );
}

function readRequest({ beforeCheckpoint, ...request }: ReadRequest): Columns {
  return { ...request, claim: false, before_checkpoint: beforeCheckpoint };
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
