/** Turns of a thread as front ends show them again: where each lies in the log, and what it was asked. */
import type { Caller } from '../../core/caller.ts';
import type { TurnInput } from '../../core/events.ts';
import { listThreadTurns } from '../../db/conversations.ts';
import { findHandedTurns, listTurnExtents } from '../../db/turn-contents.ts';
import type { Tx } from '../../db/database.ts';
import type { ShownTurn } from '../../db/shown-turns.ts';
import { requireThread } from './threads.ts';

/** A turn, its number in its run, and what it was asked. */
export interface PastTurn extends ShownTurn {
  number: number;
  /** Sequence number after its last one, as its run stands now. */
  beyond: number;
  input: TurnInput;
  /** Drover has asked it, and tells of a handoff. */
  isHanded: boolean;
}

/** The turn of that number in the run of that place on the thread. */
type PastTurnKey = [place: number, number: number];

/** A page of a thread's turns, newest first, without those of erased runs. It ends where it is large enough. Throws 404. */
export async function readPastTurns(
  tx: Tx,
  caller: Pick<Caller, 'workspaceId'>,
  page: { threadId: string; before: PastTurnKey | undefined; limit: number },
): Promise<{ turns: PastTurn[]; next: PastTurnKey | undefined }> {
  const { threadId, limit } = page;
  await requireThread(tx, caller, threadId);
  const before = page.before && { place: page.before[0], number: page.before[1] };
  const { rows, more } = await listThreadTurns(tx, threadId, { before, limit });
  const kept = rows.filter(({ erased_at }) => erased_at === null);
  const ids = kept.map(({ id }) => id);
  const [extents, handed] = await Promise.all([listTurnExtents(tx, ids), findHandedTurns(tx, ids)]);
  const turns = kept.flatMap((row): PastTurn[] => {
    const extent = extents.find(({ turn_id }) => turn_id === row.id);
    if (!extent) return [];
    const { start, beyond, head, is_open: isOpen } = extent;
    const { run_id: runId, id: turnId, thread_place: place, number, input } = row;
    const isHanded = handed.has(turnId);
    return [{ threadId, runId, turnId, place, number, start, beyond, head, isOpen, input, isHanded }];
  });
  const last = rows.at(-1);
  return { turns, next: more && last ? [last.thread_place, last.number] : undefined };
}
