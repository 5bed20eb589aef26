/** The point of a run from which another starts: a checkpoint that fits its hash, or the run's own start. */
import { impossible, notFound } from '../../../core/errors.ts';
import { readEvent, UnknownEventError } from '../../../core/events.ts';
import { fold, foldAll, type RunState } from '../../../core/state.ts';
import { findCheckpoint, findCheckpointBefore, type CheckpointView } from '../../../db/checkpoints.ts';
import { readMessages } from '../../../db/messages.ts';
import type { Tx } from '../../../db/database.ts';
import { readEvents } from '../../../db/events.ts';
import { findTurnAfter, type StartedTurn } from '../../../db/replay.ts';
import type { MessageRow, RunRow } from '../../../db/claim-run.ts';
import { firstBrokenMessage, isOfNewerBuild, verifiedState } from '../../run-log/checkpoint.ts';
import { asOf, unchangedSince } from '../../run-log/messages-at.ts';

export interface StartPoint {
  /** Null if it is not one of the run's checkpoints. */
  checkpointId: string | null;
  seq: number;
  state: RunState;
  /** The conversation up to the point, with its calls' results at that time. */
  messages: MessageRow[];
  /** Number of first messages with the same results now; another run can share these. */
  unchanged: number;
}

type Found = Omit<StartPoint, 'unchanged'>;

/** The point at a checkpoint. Throws 404 for an unknown one, 422 if it does not fit its hash, UnknownEventError for a newer build's. */
export async function startPointAt(tx: Tx, run: RunRow, checkpointId: string): Promise<StartPoint> {
  const checkpoint = await findCheckpoint(tx, run.id, checkpointId);
  if (!checkpoint) throw notFound('The checkpoint');
  if (isOfNewerBuild(checkpoint)) throw new UnknownEventError('checkpoint', checkpoint.state.log_version ?? 0);
  const point = await verified(checkpoint, await readMessages(tx, run.id, { length: checkpoint.length }));
  if (!point) throw impossible('The checkpoint does not fit its hash; choose an earlier one.');
  return asOfThen(tx, run, point);
}

/**
 * Where a run last stood before its failure: the newest checkpoint in its last turn; otherwise just before that turn, or after
 * it if completed. Positions without a checkpoint are folded from the log.
 */
export async function lastStartPoint(tx: Tx, run: RunRow): Promise<StartPoint> {
  const turn = await findTurnAfter(tx, { runId: run.id, seq: 0 }, 'last');
  return turn ? asOfThen(tx, run, await findLast(tx, run, turn)) : firstStartPoint(tx, run);
}

/** Removes results that came after the point. */
async function asOfThen(tx: Tx, run: RunRow, found: Found): Promise<StartPoint> {
  const { state } = found;
  const messages = await asOf(tx, run.id, { messages: found.messages, at: state });
  return { ...found, messages, unchanged: unchangedSince(messages, found.messages) };
}

async function findLast(tx: Tx, run: RunRow, turn: StartedTurn): Promise<Found> {
  const messages = await readMessages(tx, run.id, { length: run.length });
  const newest = await newestCheckpoint(tx, run, messages);
  if (newest?.state.turn?.id === turn.id) return newest;
  const end = turn.completed_seq ?? turn.seq - 1;
  if (newest?.seq === end) return newest;
  const point = (await foldUpTo(tx, run, { seq: end, messages })) ?? newest;
  if (!point) throw impossible('The log of the run cannot be read, and no checkpoint of it fits its hash.');
  return point;
}

async function newestCheckpoint(tx: Tx, run: RunRow, messages: MessageRow[]): Promise<Found | undefined> {
  for (let before: string | undefined; ;) {
    const checkpoint: CheckpointView | undefined = await findCheckpointBefore(tx, run.id, before);
    if (!checkpoint) return undefined;
    const isReadable = !isOfNewerBuild(checkpoint);
    const point = isReadable && (await verified(checkpoint, messages.slice(0, checkpoint.length)));
    if (point) return point;
    before = checkpoint.id;
  }
}

/** Folds the log up to `end`. Undefined if the log cannot be read, or its messages do not fit their hashes. */
async function foldUpTo(tx: Tx, run: RunRow, end: { seq: number; messages: MessageRow[] }): Promise<Found | undefined> {
  const rows = await readEvents(tx, { runId: run.id, after: 0, limit: end.seq });
  const state = folded(rows);
  const messages = end.messages.slice(0, state?.length ?? 0);
  if (state?.seq !== end.seq || (await firstBrokenMessage(messages)) !== null) return undefined;
  return { checkpointId: null, seq: state.seq, state, messages };
}

function folded(rows: Parameters<typeof readEvent>[0][]): RunState | null {
  try {
    return foldAll(null, rows.map(readEvent));
  } catch (error) {
    if (error instanceof UnknownEventError) throw error;
    return null;
  }
}

/** The run before its first turn; a run forked in the middle of a turn starts in that turn. */
export async function firstStartPoint(tx: Tx, run: RunRow): Promise<StartPoint> {
  let state: RunState | null = null;
  for (const row of await readEvents(tx, { runId: run.id, after: 0, limit: 3 })) {
    const event = readEvent(row);
    const isStart =
      event.type === 'run.created' ||
      event.type === 'run.forked' ||
      (event.type === 'turn.started' && event.payload.continues !== undefined);
    if (!isStart) break;
    state = fold(state, event);
  }
  if (!state) throw new Error(`the log of run ${run.id} does not start with its creation`);
  const messages = await readMessages(tx, run.id, { length: run.base_length });
  if ((await firstBrokenMessage(messages)) !== null) throw impossible("The run's messages do not fit their hashes.");
  return { checkpointId: null, seq: state.seq, state, messages, unchanged: messages.length };
}

async function verified(checkpoint: CheckpointView, messages: MessageRow[]): Promise<Found | null> {
  if ((await firstBrokenMessage(messages)) !== null) return null;
  const { id, seq, length, state, hash } = checkpoint;
  const found = verifiedState({ length, state, hash }, messages);
  return found && { checkpointId: id, seq, state: found, messages };
}
