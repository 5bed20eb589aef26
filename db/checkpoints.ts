/** Reads checkpoints. */
import { LIMITS } from '../core/limits.ts';
import type { Tx } from './database.ts';
import { readPages, type MessageRow, type StoredState } from './claim-run.ts';

/** A checkpoint without its state, which may be large. */
export interface CheckpointHead {
  id: string;
  seq: number;
  node: string;
  trigger: string;
  parent_id: string | null;
  created_at: Date;
}

export interface CheckpointView extends CheckpointHead {
  lineage: string;
  length: number;
  state: StoredState;
  channel_versions: Record<string, number>;
  pending_sends: unknown[];
  hash: string;
}

/** A page of a run's checkpoints, newest first. `before` is a checkpoint's id. */
export async function listCheckpoints(
  tx: Tx,
  runId: string,
  page: { before?: string | undefined; limit: number },
): Promise<CheckpointHead[]> {
  return tx.query<CheckpointHead>(
    `select id, seq, node, trigger, parent_id, created_at from checkpoints where run_id = $1
       and ($2::uuid is null or seq < (select seq from checkpoints where run_id = $1 and id = $2))
     order by seq desc limit $3`,
    [runId, page.before ?? null, page.limit],
  );
}

/** The newest checkpoint of a run before the one with this id; undefined if there is none. */
export async function findCheckpointBefore(
  tx: Tx,
  runId: string,
  before: string | undefined,
): Promise<CheckpointView | undefined> {
  const [head] = await listCheckpoints(tx, runId, { before, limit: 1 });
  return head && findCheckpoint(tx, runId, head.id);
}

export async function findCheckpoint(tx: Tx, runId: string, id: string): Promise<CheckpointView | undefined> {
  const [row] = await tx.query<CheckpointView>('select * from checkpoints where run_id = $1 and id = $2', [runId, id]);
  return row;
}

/** Whether a driver currently holds a run, by database time. */
export async function isDriven(tx: Tx, runId: string): Promise<boolean> {
  const [row] = await tx.query<{ driven: boolean | null }>(
    'select driver_lease_expires_at > clock_timestamp() as driven from runs where id = $1',
    [runId],
  );
  return row?.driven ?? false;
}

/**
 * Stored messages of a run, from `from` up to `length`, with their calls' outcomes as models see them. Outputs larger than
 * `shownBytes` are replaced by their address.
 */
export async function readMessages(
  tx: Tx,
  runId: string,
  { from = 0, length, shownBytes }: { from?: number; length: number; shownBytes?: number },
): Promise<MessageRow[]> {
  const [run] = await tx.query<{ tenant_id: string; id: string }>('select tenant_id, id from runs where id = $1', [
    runId,
  ]);
  if (!run) return [];
  const rest = { events_from: null, messages_from: from, messages_to: length, shown: shownBytes ?? null, calls: [] };
  const { messages } = await readPages((work) => work(tx), run, { events: [], messages: [], outcomes: {}, rest });
  return messages;
}

/** Maximum number of messages read at once for showing all of them. */
const MESSAGES_TOGETHER = 500;

/** The end of a page of a run's messages that begins at `from`: at least one message, and not many more than fit. */
export async function findPageEnd(tx: Tx, runId: string, page: { from: number; length: number }): Promise<number> {
  const most = Math.min(page.length, page.from + MESSAGES_TOGETHER);
  const [row] = await tx.query<{ beyond: number | null }>(
    `with segments as (
        select (s->>'lineage')::uuid as lineage, (s->>'length')::int as upto, lag((s->>'length')::int, 1, 0) over (order by place) as since
        from runs r cross join jsonb_array_elements(
          r.lineage_base || jsonb_build_array(jsonb_build_object('lineage', r.lineage, 'length', r.length)))
          with ordinality as list (s, place) where r.id = $1),
      sized as (
        select m.ordinal, sum(json_bytes(m.content)) over (order by m.ordinal) as bytes from segments g
          cross join lateral (select ordinal, content from messages where lineage = g.lineage
            and ordinal >= greatest(g.since, $2) and ordinal < least(g.upto, $3) order by ordinal) m)
     select min(ordinal) as beyond from sized where bytes > $4 and ordinal > $2`,
    [runId, page.from, most, LIMITS.streamPageBytes],
  );
  return row?.beyond ?? most;
}

/** Calls of unknown outcome that was clarified after a position of a run: by its log, or later, where a log may have no event. */
export async function listLearnedAfter(
  tx: Tx,
  runId: string,
  { seq, calls }: { seq: number; calls: readonly string[] },
): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select payload->>'tool_call_id' as id from run_events where run_id = $1 and commit_seq > $2 and seq > $2 and type = 'tool.resolved'
     union
     select id::text from tool_calls where id = any($3::uuid[])
       and finished_at > (select occurred_at from run_events where run_id = $1 and commit_seq >= $2 and seq = $2 order by commit_seq limit 1)`,
    [runId, seq, calls],
  );
  return rows.map(({ id }) => id);
}
