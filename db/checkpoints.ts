/** Reads checkpoints. */
import type { Tx } from './database.ts';
import type { StoredState } from './claim-run.ts';

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

/** Of a run's checkpoints from `seq` on, those that its log reports as corrupt. */
export async function listReportedCorrupt(tx: Tx, runId: string, seq: number): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select payload->>'checkpoint_id' as id from run_events
     where run_id = $1 and commit_seq > $2 and seq > $2 and type = 'checkpoint.corrupt'`,
    [runId, seq],
  );
  return rows.map(({ id }) => id);
}

export async function findCheckpoint(tx: Tx, runId: string, id: string): Promise<CheckpointView | undefined> {
  const [row] = await tx.query<CheckpointView>('select * from checkpoints where run_id = $1 and id = $2', [runId, id]);
  return row;
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
