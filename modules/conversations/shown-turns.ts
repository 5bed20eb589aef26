/** Turns of a thread as front ends show them again: where each lies in the log, and what it was asked. */
import type { Caller } from '../../core/caller.ts';
import type { TurnInput } from '../../core/events.ts';
import { listThreadTurns } from '../../db/conversations.ts';
import { findHandedTurns, listTurnExtents } from '../../db/turn-contents.ts';
import type { Tx } from '../../db/database.ts';
import type { ShownTurn } from '../../db/shown-turns.ts';
import { keyOfTurn, keyToAsk, requireThread, type TurnKey } from './threads.ts';

/** A turn, its number in its run, and what it was asked. */
export interface PastTurn extends ShownTurn {
  number: number;
  /** How many forks back its thread is from the one that it is shown on. */
  forks: number;
  /** Sequence number after its last one, as its run stands now. */
  beyond: number;
  input: TurnInput;
  /** Drover has asked it, and tells of a handoff. */
  isHanded: boolean;
}

/**
 * A page of a thread's turns, newest first, without those of erased runs. A fork's go on with those of the threads that it was
 * forked from, as far as the caller may read these. It ends where it is large enough. Throws 404.
 */
export async function readPastTurns(
  tx: Tx,
  caller: Caller,
  page: { threadId: string; before: TurnKey | undefined; limit: number },
): Promise<{ turns: PastTurn[]; next: TurnKey | undefined }> {
  const { threadId, limit } = page;
  const thread = await requireThread(tx, caller, threadId);
  const [place, number, forks = 0] = page.before ?? [];
  const before = place !== undefined && number !== undefined ? { place, number, forks } : undefined;
  const { rows, more } = await listThreadTurns(tx, thread, { before, keyId: keyToAsk(caller, threadId), limit });
  const kept = rows.filter(({ erased_at }) => erased_at === null);
  const ids = kept.map(({ id }) => id);
  const [extents, handed] = await Promise.all([listTurnExtents(tx, ids), findHandedTurns(tx, ids)]);
  const turns = kept.flatMap((row): PastTurn[] => {
    const extent = extents.find(({ turn_id }) => turn_id === row.id);
    if (!extent) return [];
    const { start, beyond, head, is_open: isOpen } = extent;
    const { run_id: runId, id: turnId, input } = row;
    const at = { threadId: row.thread_id, place: row.thread_place, number: row.number, forks: row.forks };
    const isHanded = handed.has(turnId);
    return [{ ...at, runId, turnId, start, beyond, head, isOpen, input, isHanded }];
  });
  const last = rows.at(-1);
  const next = last && { place: last.thread_place, number: last.number, forks: last.forks };
  return { turns, next: more && next ? keyOfTurn(next) : undefined };
}
