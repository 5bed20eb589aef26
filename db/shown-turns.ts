/** Turns of threads in the form front ends need. */
import type { Tx } from './database.ts';
import { edgeEvent } from './run-log.ts';

export interface ShownTurn {
  threadId: string;
  runId: string;
  turnId: string;
  /** Number of its run on the thread. */
  place: number;
  /** Sequence number of its start. */
  start: number;
  /** Last sequence number of its run. */
  head: number;
  isOpen: boolean;
}

interface Row extends Pick<ShownTurn, 'place' | 'start' | 'head'> {
  run: string;
  turn: string;
  is_open: boolean;
}

/** A turn of a thread: the newest one of the newest run, or the one of this id; undefined if there is none. */
export async function findShownTurn(tx: Tx, threadId: string, turnId?: string): Promise<ShownTurn | undefined> {
  const [row] = await tx.query<Row>(
    `select r.id as run, r.thread_place as place, e.turn_id as turn, e.seq as start, r.last_seq as head,
        coalesce(r.open_turn_id = e.turn_id, false) as is_open
      from threads d
      join runs r on r.thread_id = d.id and ($2::uuid is not null or r.id = d.head_run_id)
      join lateral ${edgeEvent('last', { run: 'r.id', where: "e.type = 'turn.started' and ($2::uuid is null or e.turn_id = $2::uuid)" })} e on true
      where d.id = $1 order by r.thread_place desc limit 1`,
    [threadId, turnId ?? null],
  );
  if (!row) return undefined;
  const { run: runId, turn, is_open: isOpen, ...rest } = row;
  return { threadId, runId, turnId: turn, isOpen, ...rest };
}

/** The turn of the thread's newest run during which this message was queued; undefined if there is none. */
export async function findTurnOfMessage(
  tx: Tx,
  of: { threadId: string; messageId: string },
): Promise<ShownTurn | undefined> {
  const [row] = await tx.query<{ turn: string | null }>(
    `select e.turn_id as turn from threads d
      join lateral ${edgeEvent('last', { run: 'd.head_run_id', where: "e.type = 'message.queued' and e.payload->>'message_id' = $2" })} e on true
      where d.id = $1`,
    [of.threadId, of.messageId],
  );
  return row?.turn ? findShownTurn(tx, of.threadId, row.turn) : undefined;
}

/** A run of a thread, with its position. */
export interface RunOnThread {
  id: string;
  place: number;
  head: number;
}

/** The run with this number on a thread, or the next one; undefined if there is none. */
export async function findRunOnThread(
  tx: Tx,
  of: { threadId: string; place: number },
): Promise<RunOnThread | undefined> {
  const [row] = await tx.query<RunOnThread>(
    `select id, thread_place as place, last_seq as head from runs
      where thread_id = $1 and thread_place >= $2::float8 order by thread_place limit 1`,
    [of.threadId, of.place],
  );
  return row;
}
