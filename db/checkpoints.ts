/** Checkpoints as they are read. */
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

/** The newest checkpoint of a run before another one, whose id is given; undefined if there is none. */
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

/** Whether a driver holds a run now, by the database's clock. */
export async function isDriven(tx: Tx, runId: string): Promise<boolean> {
  const [row] = await tx.query<{ driven: boolean | null }>(
    'select driver_lease_expires_at > clock_timestamp() as driven from runs where id = $1',
    [runId],
  );
  return row?.driven ?? false;
}

/**
 * The messages of a run up to a length, from the first or a later one on, as they are stored, with what models see of the outcomes of their calls; of outputs larger
 * than `shownBytes` with their address.
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

/** Calls of a run of whose unknown outcome more was learned after a position. */
export async function listResolvedAfter(tx: Tx, runId: string, seq: number): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select payload->>'tool_call_id' as id from run_events where run_id = $1 and seq > $2 and type = 'tool.resolved'`,
    [runId, seq],
  );
  return rows.map(({ id }) => id);
}
