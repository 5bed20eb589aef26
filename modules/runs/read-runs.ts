/** Runs, their turns, events and checkpoints as shown by the API, only of the caller's workspace. */
import type { Caller } from '../../core/caller.ts';
import { erased, notFound } from '../../core/errors.ts';
import type { Message } from '../../core/content.ts';
import { LIMITS } from '../../core/limits.ts';
import { hasScope } from '../../core/scopes.ts';
import { findAgent } from '../../db/agents.ts';
import {
  findCheckpoint,
  listCheckpoints,
  listReportedCorrupt,
  type CheckpointHead,
  type CheckpointView,
} from '../../db/checkpoints.ts';
import type { Database, Tx } from '../../db/database.ts';
import { listEventHeads, type EventFilter, type EventHead, type EventPage, type LoggedEvent } from '../../db/events.ts';
import { isCallOfThread } from '../../db/fork-beginning.ts';
import { readOutputPiece } from '../../db/outputs.ts';
import { listCallBatches, type CallBatchRow } from '../../db/call-batches.ts';
import type { StepRow } from '../../db/run-steps.ts';
import {
  countRuns,
  findRun,
  findRunRefs,
  findRunRow,
  listBelow,
  listRuns,
  type AwaitedApproval,
  type OpenWait,
  type ProviderWait,
  type RunFilter,
  type RunHead,
  type RunRef,
  type RunView,
} from '../../db/runs.ts';
import { readMessages } from '../../db/messages.ts';
import type { Page, Sized } from '../../db/page-bytes.ts';
import { listRunsByChange } from '../../db/runs-by-change.ts';
import {
  findTurn,
  listEnteredNodes,
  listLastTurns,
  listModelCalls,
  listTurns,
  withPartials,
  type ModelCallRow,
  type TurnRow,
} from '../../db/turns.ts';
import { hasAskedFor } from '../../db/requesters.ts';
import { findToolCall, listAwaitedCalls, listToolCalls, type ToolCallRow } from '../../db/tool-calls.ts';
import type { RunLogContext } from '../run-log/run-log-context.ts';
import { isOfNewerBuild, verifiedState } from '../run-log/checkpoint.ts';
import { messagesFor } from '../run-log/conversation.ts';
import { readMessagesAt } from '../run-log/messages-at.ts';

export type {
  AwaitedApproval,
  CheckpointHead,
  CheckpointView,
  EventHead,
  LoggedEvent,
  ModelCallRow,
  OpenWait,
  CallBatchRow,
  ProviderWait,
  RunHead,
  RunView,
  StepRow,
  ToolCallRow,
  TurnRow,
};

/** A run as named by a path: with its agent, if the path has one. */
export interface RunPath {
  run: string;
  id?: string | undefined;
}

/** The run named by a path, if it is of the caller's workspace and the path's agent. Throws 404. */
export async function requireRun(tx: Tx, caller: Caller, path: RunPath): Promise<RunView> {
  return theirRun(await findRun(tx, path.run), caller, path);
}

/** Like `requireRun`, for reading without a scope: a key without `runs:read` finds only runs that it requested. Throws 404. */
export async function requireReadableRun(tx: Tx, caller: Caller, path: RunPath): Promise<RunView> {
  const run = await requireRun(tx, caller, path);
  if (!(await mayRead(tx, caller, run.id))) throw notFound('The run');
  return run;
}

/** Whether a caller may see a run of its workspace: with the scope `runs:read`, or if it requested the run. */
export async function mayRead(tx: Tx, { scopes, keyId }: Caller, runId: string): Promise<boolean> {
  return hasScope(scopes, 'runs:read') || hasAskedFor(tx, { runId, keyId });
}

/** Like `requireRun`, if nothing of the run is shown. */
export async function requireRunRef(tx: Tx, caller: Caller, path: RunPath): Promise<RunRef> {
  const [run] = await findRunRefs(tx, [path.run]);
  return theirRun(run, caller, path);
}

function theirRun<R extends RunRef>(run: R | undefined, caller: Caller, path: RunPath): R {
  const isTheirs = run && run.workspace_id === caller.workspaceId && (!path.id || run.agent_id === path.id);
  if (!isTheirs) throw notFound('The run');
  return run;
}

/** Like `requireRun`, without a transaction: batched with concurrent reads of the tenant's runs. */
export async function readRun(
  { reads }: Pick<RunLogContext, 'reads'>,
  caller: Caller,
  path: RunPath,
): Promise<RunView> {
  return theirRun(await reads.run(caller.tenantId, path.run), caller, path);
}

/** The run with the partial answer of its last turn, if that was cut off. Costs another statement, so lists leave it out. */
export async function withLastWords(
  context: Pick<RunLogContext, 'db'>,
  tenantId: string,
  row: RunView,
): Promise<RunView> {
  const { cut_off: last, output } = row;
  if (!last || output) return row;
  const [turn] = await context.db.withTenant(tenantId, (tx) => withPartials(tx, [{ ...last, output }]));
  return { ...row, cut_off: { ...last, partial: turn?.partial ?? null } };
}

/** Like `readRun`, if nothing of the run is shown. */
export async function readRunRef(
  { reads }: Pick<RunLogContext, 'reads'>,
  caller: Caller,
  path: RunPath,
): Promise<RunRef> {
  return theirRun(await reads.runRef(caller.tenantId, path.run), caller, path);
}

/**
 * A run and its descendants at any depth, oldest first, at most `LIMITS.treeRuns` and as many as fit in size; `more`: whether
 * there are others. Throws 404.
 */
export async function readTree(tx: Tx, caller: Caller, path: RunPath): Promise<{ runs: RunView[]; more: boolean }> {
  const run = await requireRun(tx, caller, path);
  const { rows, more } = await listBelow(tx, run.id, LIMITS.treeRuns - 1);
  return { runs: [run, ...rows], more };
}

/** A page of runs, newest first. Throws 404 if `ofAgent` is an unknown agent. */
export async function readRuns(
  tx: Tx,
  caller: Caller,
  filter: Omit<RunFilter, 'workspaceId'> & { ofAgent?: string },
): Promise<Page<RunView>> {
  const { ofAgent, ...rest } = filter;
  if (ofAgent !== undefined && !(await findAgent(tx, ofAgent, caller.workspaceId))) throw notFound('The agent');
  const where = ofAgent === undefined ? { workspaceId: caller.workspaceId } : { agentId: ofAgent };
  return listRuns(tx, { ...rest, ...where });
}

/** A page of an agent's runs, last changed first. */
export async function readRunsByChange(
  tx: Tx,
  agentId: string,
  filter: Omit<Parameters<typeof listRunsByChange>[1], 'agentId'>,
): Promise<RunHead[]> {
  return listRunsByChange(tx, { ...filter, agentId });
}

/** When a run ended, otherwise last changed. */
export function changedAt({ completed_at, updated_at }: Pick<RunView, 'completed_at' | 'updated_at'>): string {
  return (completed_at ?? updated_at).toISOString();
}

/** Number of an agent's runs that match, on all pages. */
export async function countRunsOf(
  tx: Tx,
  agentId: string,
  filter: Omit<RunFilter, 'limit' | 'before'>,
): Promise<number> {
  return countRuns(tx, { ...filter, agentId });
}

/** A page of a run's turns, oldest first. */
export async function readTurns(
  tx: Tx,
  caller: Caller,
  page: { path: RunPath } & Parameters<typeof listTurns>[2],
): Promise<Page<TurnRow>> {
  const { path, ...rest } = page;
  const { id } = await requireRunRef(tx, caller, path);
  return listTurns(tx, id, rest);
}

/** The last turns of a run (already authorised), as many as fit on a page, oldest first, with their sizes. */
export async function readLastTurns(tx: Tx, run: RunHead, limit: number): Promise<(TurnRow & Sized)[]> {
  return listLastTurns(tx, run.id, limit);
}

/** A turn with its events' details. */
interface TurnDetail {
  turn: TurnRow;
  modelCalls: ModelCallRow[];
  toolCalls: ToolCallRow[];
  plans: CallBatchRow[];
  /** For agents with a graph. */
  nodes: { node: string; step: number }[];
}

/** A turn with its model calls, tool calls, call batches and nodes. Throws 404. */
export async function requireTurn(tx: Tx, caller: Caller, path: RunPath & { turn: string }): Promise<TurnDetail> {
  await requireRunRef(tx, caller, path);
  const turn = await findTurn(tx, path.run, path.turn);
  if (!turn) throw notFound('The turn');
  return {
    turn,
    modelCalls: await listModelCalls(tx, path.run, path.turn),
    toolCalls: await listToolCalls(tx, path.run, path.turn),
    plans: await listCallBatches(tx, path.run, path.turn),
    nodes: await listEnteredNodes(tx, path.run, path.turn),
  };
}

/** The calls shown with a turn's answer: while it waits for the client, those that the client is to execute; otherwise all of the turn. */
export async function readAnswerCalls(tx: Tx, turn: Pick<TurnRow, 'id' | 'run_id' | 'status'>): Promise<ToolCallRow[]> {
  return turn.status === 'awaiting_tool' ? listAwaitedCalls(tx, turn.run_id) : listToolCalls(tx, turn.run_id, turn.id);
}

/** A page of a run's log, in order. */
export async function readLog(
  tx: Tx,
  caller: Caller,
  page: { path: RunPath } & Pick<EventFilter, 'after' | 'limit' | 'types'>,
): Promise<EventPage<EventHead>> {
  const { path, ...filter } = page;
  const { id } = await requireRunRef(tx, caller, path);
  return listEventHeads(tx, { runId: id, maxBytes: LIMITS.eventsPageBytes, ...filter });
}

/** A checkpoint, and whether it must not be used. */
export type Marked<C> = C & { isCorrupt: boolean };

/** A page of a run's checkpoints, newest first. Corrupt are those that the log reports. */
export async function readCheckpoints(
  tx: Tx,
  caller: Caller,
  page: { path: RunPath; before: string | undefined; limit: number },
): Promise<Marked<CheckpointHead>[]> {
  const { path, ...rest } = page;
  const { id } = await requireRunRef(tx, caller, path);
  const heads = await listCheckpoints(tx, id, rest);
  const oldest = heads.at(-1);
  const corrupt = new Set(oldest && (await listReportedCorrupt(tx, id, oldest.seq)));
  return heads.map((head) => ({ ...head, isCorrupt: corrupt.has(head.id) }));
}

/**
 * A checkpoint of a run, without its messages. Corrupt is one that the log reports, or that does not fit its hash. Throws 404;
 * 409 if its state is erased.
 */
export async function requireCheckpoint(
  tx: Tx,
  caller: Caller,
  path: RunPath & { checkpoint: string },
): Promise<Marked<CheckpointView>> {
  const { id, erased_at } = await requireRunRef(tx, caller, path);
  const row = await findCheckpoint(tx, id, path.checkpoint);
  if (!row) throw notFound('The checkpoint');
  if (erased_at) throw erased('The checkpoint');
  const isReported = (await listReportedCorrupt(tx, id, row.seq)).includes(row.id);
  return { ...row, isCorrupt: isReported || !(await fitsHash(tx, id, row)) };
}

/** Whether its state fits its hash, as far as this build can tell. */
async function fitsHash(tx: Tx, runId: string, row: CheckpointView): Promise<boolean> {
  if (isOfNewerBuild(row)) return true;
  const { length } = row;
  const from = Math.max(length - 1, 0);
  const last = await readMessages(tx, runId, { from, length, shownBytes: 0 });
  return verifiedState(row, last, { messages: from, chain: '' }) !== null;
}

/** Yields the conversation at a checkpoint page by page, with its calls' results at that time, and addresses of large outputs. */
export async function* readCheckpointMessages(
  db: Database,
  run: { tenantId: string; runId: string },
  { seq, length, state }: Pick<CheckpointView, 'seq' | 'length' | 'state'>,
): AsyncGenerator<Message[]> {
  const shownBytes = LIMITS.shownOutputBytes;
  for await (const rows of readMessagesAt(db, run, { seq, length, calls: state.calls, shownBytes })) {
    yield messagesFor(rows, Number.POSITIVE_INFINITY).messages;
  }
}

/** A tool call of the caller's workspace. Throws 404. */
export async function requireToolCall(tx: Tx, caller: Caller, id: string): Promise<ToolCallRow> {
  const row = await findToolCall(tx, id);
  const [run] = row ? await findRunRefs(tx, [row.run_id]) : [];
  // One message, which does not tell whether another workspace has such a call.
  if (!row || run?.workspace_id !== caller.workspaceId) throw notFound('The tool call');
  return row;
}

/** Characters of an output held in memory at a time. */
const PIECE_CHARS = 1024 * 1024;

/**
 * Streams a call's whole output as JSON text, with backpressure. Each piece is read in its own transaction; throws if the
 * output changes meanwhile.
 */
export async function* streamOutput(
  db: Database,
  tenantId: string,
  call: Pick<ToolCallRow, 'id' | 'output_bytes'>,
): AsyncGenerator<string> {
  for (let from = 0; ; from += PIECE_CHARS) {
    const piece = await db.withTenant(tenantId, (tx) => readOutputPiece(tx, call, { from, chars: PIECE_CHARS }));
    if (piece === undefined) throw new Error(`the output of call ${call.id} has changed while it was read`);
    if (piece !== '') yield piece;
    // A character beyond the BMP has two code units, so a piece may have more units than characters.
    if (piece.length < PIECE_CHARS) return;
  }
}

/** The run that requested a call; undefined if there is no such call. */
export async function runOfCall(tx: Tx, callId: string): Promise<string | undefined> {
  return (await findToolCall(tx, callId))?.run_id;
}

/** Whether a thread shows a call: one of its runs', or of the turns that it shows of another thread. */
export async function isShownCall(tx: Tx, call: { id: string; threadId: string }): Promise<boolean> {
  return isCallOfThread(tx, call);
}

/** The thread of a run; undefined if there is no such run. */
export async function threadOfRun(tx: Tx, runId: string): Promise<string | undefined> {
  return (await findRunRow(tx, runId))?.thread_id;
}
