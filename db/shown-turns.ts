/** Turns of threads as front ends show them. */
import type { Tx } from './database.ts';

export interface ShownTurn {
  threadId: string;
  runId: string;
  turnId: string;
  /** Sequence number of its start. */
  start: number;
  /** The last sequence number of its run. */
  head: number;
  isOpen: boolean;
}

/** The newest turn of a thread's newest run, or the one of this id; undefined if there is none. */
export async function findShownTurn(tx: Tx, threadId: string, turnId?: string): Promise<ShownTurn | undefined> {
  const [row] = await tx.query<{ run: string; turn: string; start: number; head: number; is_open: boolean }>(
    `select r.id as run, e.turn_id as turn, e.seq as start, r.last_seq as head,
        coalesce(r.open_turn_id = e.turn_id, false) as is_open
      from threads d
      join runs r on r.thread_id = d.id and ($2::uuid is not null or r.id = d.head_run_id)
      join run_events e on e.run_id = r.id and e.type = 'turn.started' and ($2::uuid is null or e.turn_id = $2::uuid)
      where d.id = $1 order by r.thread_place desc, e.seq desc limit 1`,
    [threadId, turnId ?? null],
  );
  if (!row) return undefined;
  return { threadId, runId: row.run, turnId: row.turn, start: row.start, head: row.head, isOpen: row.is_open };
}

/** Whether the workspace has this thread, with its content. */
export async function hasThread(tx: Tx, of: { id: string; workspaceId: string }): Promise<boolean> {
  const rows = await tx.query('select 1 from threads where id = $1 and workspace_id = $2 and erased_at is null', [
    of.id,
    of.workspaceId,
  ]);
  return rows.length > 0;
}
