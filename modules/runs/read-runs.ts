/** Runs, their turns, events and checkpoints as the API shows them, of the caller's workspace alone. */
import type { Caller } from '../../core/caller.ts';
import { erased, notFound } from '../../core/errors.ts';
import type { Message } from '../../core/content.ts';
import { LIMITS } from '../../core/limits.ts';
import { hasScope } from '../../core/scopes.ts';
import { findAgent } from '../../db/agents.ts';
import { findCheckpoint, listCheckpoints, type CheckpointHead, type CheckpointView } from '../../db/checkpoints.ts';
import type { Database, Tx } from '../../db/database.ts';
import { listEventHeads, type EventFilter, type EventHead, type EventPage, type LoggedEvent } from '../../db/events.ts';
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
import type { Page, Sized } from '../../db/page-bytes.ts';
import { listRunsByChange } from '../../db/runs-by-change.ts';
import {
  findToolCall,
  findTurn,
  hasAskedFor,
  listAwaitedCalls,
  listEnteredNodes,
  listLastTurns,
  listModelCalls,
  listToolCalls,
  listTurns,
  withPartials,
  type ModelCallRow,
  type ToolCallRow,
  type TurnRow,
} from '../../db/turns.ts';
import type { RunLogContext } from '../run-log/run-log-context.ts';
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

/** A run as a path names it: with its agent, where the path has one. */
export interface RunPath {
  run: string;
  id?: string | undefined;
}

/** The run that a path names, of the caller's workspace and of the agent, where the path has one. Throws 404. */
export async function requireRun(tx: Tx, caller: Caller, path: RunPath): Promise<RunView> {
  return theirRun(await findRun(tx, path.run), caller, path);
}

/** The same where reading needs no scope: a key without `runs:read` finds those runs alone that it has asked for. Throws 404. */
export async function requireReadableRun(tx: Tx, caller: Caller, path: RunPath): Promise<RunView> {
  const run = await requireRun(tx, caller, path);
  if (!(await mayRead(tx, caller, run.id))) throw notFound('The run');
  return run;
}

/** Whether a caller may be shown a run of its workspace: without the scope `runs:read` it has asked for it itself. */
export async function mayRead(tx: Tx, { scopes, keyId }: Caller, runId: string): Promise<boolean> {
  return hasScope(scopes, 'runs:read') || hasAskedFor(tx, { runId, keyId });
}

/** The same as `requireRun` where nothing of the run is shown. */
export async function requireRunRef(tx: Tx, caller: Caller, path: RunPath): Promise<RunRef> {
  const [run] = await findRunRefs(tx, [path.run]);
  return theirRun(run, caller, path);
}

function theirRun<R extends RunRef>(run: R | undefined, caller: Caller, path: RunPath): R {
  const isTheirs = run && run.workspace_id === caller.workspaceId && (!path.id || run.agent_id === path.id);
  if (!isTheirs) throw notFound('The run');
  return run;
}

/** The same without a transaction of the caller's, together with other runs of the tenant that are asked for at the time. */
export async function readRun(
  { reads }: Pick<RunLogContext, 'reads'>,
  caller: Caller,
  path: RunPath,
): Promise<RunView> {
  return theirRun(await reads.run(caller.tenantId, path.run), caller, path);
}

/** A run with what was said in its last turn, where that was cut off: a statement more. Lists leave it out. */
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

/** The same where nothing of the run is shown. */
export async function readRunRef(
  { reads }: Pick<RunLogContext, 'reads'>,
  caller: Caller,
  path: RunPath,
): Promise<RunRef> {
  return theirRun(await reads.runRef(caller.tenantId, path.run), caller, path);
}

/**
 * A run and all that stands below it, at whatever depth, oldest first, `LIMITS.treeRuns` at most, and what has room. Whether there are more says
 * `more`. Throws 404.
 */
export async function readTree(tx: Tx, caller: Caller, path: RunPath): Promise<{ runs: RunView[]; more: boolean }> {
  const run = await requireRun(tx, caller, path);
  const { rows, more } = await listBelow(tx, run.id, LIMITS.treeRuns - 1);
  return { runs: [run, ...rows], more };
}

/** A page of runs, newest first. Throws 404 if `ofAgent` names an agent that there is not. */
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

/** A page of an agent's runs, those first that have changed last. */
export async function readRunsByChange(
  tx: Tx,
  agentId: string,
  filter: Omit<Parameters<typeof listRunsByChange>[1], 'agentId'>,
): Promise<RunHead[]> {
  return listRunsByChange(tx, { ...filter, agentId });
}

/** When a run has ended, or else changed last. */
export function changedAt({ completed_at, updated_at }: Pick<RunView, 'completed_at' | 'updated_at'>): string {
  return (completed_at ?? updated_at).toISOString();
}

/** How many runs of an agent fit, on whatever page. */
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

/** The last turns of a run that was read for its reader, as many as fit on a page, oldest first, with their size. */
export async function readLastTurns(tx: Tx, run: RunHead, limit: number): Promise<(TurnRow & Sized)[]> {
  return listLastTurns(tx, run.id, limit);
}

/** A turn with what happened in it. */
interface TurnDetail {
  turn: TurnRow;
  modelCalls: ModelCallRow[];
  toolCalls: ToolCallRow[];
  plans: CallBatchRow[];
  /** Of an agent with a graph. */
  nodes: { node: string; step: number }[];
}

/** A turn with its model calls, tool calls and call batches. Throws 404. */
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

/** The calls that a turn's answer shows: those that the client is to execute while it waits for them, else all of the turn. */
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

/** A page of a run's checkpoints, newest first. */
export async function readCheckpoints(
  tx: Tx,
  caller: Caller,
  page: { path: RunPath; before: string | undefined; limit: number },
): Promise<CheckpointHead[]> {
  const { path, ...rest } = page;
  const { id } = await requireRunRef(tx, caller, path);
  return listCheckpoints(tx, id, rest);
}

/** A checkpoint of a run, without its messages. Throws 404, 409 where its state is erased. */
export async function requireCheckpoint(
  tx: Tx,
  caller: Caller,
  path: RunPath & { checkpoint: string },
): Promise<CheckpointView> {
  const { id, erased_at } = await requireRunRef(tx, caller, path);
  const row = await findCheckpoint(tx, id, path.checkpoint);
  if (!row) throw notFound('The checkpoint');
  if (erased_at) throw erased('The checkpoint');
  return row;
}

/**
 * The conversation at a checkpoint, put together from where it lies, page by page, with the results that its calls had by then,
 * and the addresses of large outputs.
 */
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

/** A tool call. Throws 404. */
export async function requireToolCall(tx: Tx, caller: Caller, id: string): Promise<ToolCallRow> {
  const row = await findToolCall(tx, id);
  if (!row) throw notFound('The tool call');
  await requireRunRef(tx, caller, { run: row.run_id });
  return row;
}

/** Characters of an output that are in memory at a time. */
const PIECE_CHARS = 1024 * 1024;

/**
 * The whole output of a call as JSON text, piece by piece, as fast as it is taken. Each piece is a transaction of its own;
 * throws if somebody has settled the call otherwise meanwhile.
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
    // Beyond the plane of 16 bits a character has two units, so that a piece may have more of them than characters.
    if (piece.length < PIECE_CHARS) return;
  }
}

/** The run that has asked for a call; undefined where there is no such call. */
export async function runOfCall(tx: Tx, callId: string): Promise<string | undefined> {
  return (await findToolCall(tx, callId))?.run_id;
}

/** The thread that a run is on; undefined where there is no such run. */
export async function threadOfRun(tx: Tx, runId: string): Promise<string | undefined> {
  return (await findRunRow(tx, runId))?.thread_id;
}
