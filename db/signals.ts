/** Signals to runs: each is stored once, whatever a sender repeats. */
import type { Tx } from './database.ts';

/** A row of `signals`. `digest`: of its content, if the sender chose the id. */
export interface NewSignal {
  tenantId: string;
  runId: string;
  id: string;
  type: string;
  digest?: string | undefined;
}

/** Inserts a signal; false if one with this id already came, `other` if that had other content. */
export async function insertSignal(tx: Tx, signal: NewSignal): Promise<boolean | 'other'> {
  const { tenantId, runId, id, type, digest = null } = signal;
  const rows = await tx.query(
    'insert into signals (tenant_id, run_id, id, type, digest) values ($1, $2, $3, $4, $5) on conflict do nothing returning 1 as made',
    [tenantId, runId, id, type, digest],
  );
  if (rows.length > 0) return true;
  const others = await tx.query('select 1 from signals where run_id = $1 and id = $2 and digest <> $3', [
    runId,
    id,
    digest,
  ]);
  return others.length > 0 ? 'other' : false;
}

/**
 * Bytes of a run's unused signals: those in its newest checkpoint, and those since. Slightly too high if input for work
 * elsewhere came since.
 */
export async function readKeptSignalBytes(tx: Tx, runId: string): Promise<number> {
  const [row] = await tx.query<{ bytes: number }>(
    `with saved as materialized (select coalesce(checkpoint_seq, 0) as seq from runs where id = $1),
      since as materialized (
        select type, payload from run_events where run_id = $1 and commit_seq > (select seq from saved) and seq > (select seq from saved)
          and type in ('signal.received', 'tool.succeeded')),
      kept as (
        select s->>'id' as id, s->'payload' as payload from checkpoints k
          cross join lateral jsonb_array_elements(k.state->'signals') s where k.run_id = $1 and k.seq = (select seq from saved)
        union all
        select payload->>'signal_id', payload->'payload' from since
          where type = 'signal.received' and payload->>'type' <> 'tool_results')
     select coalesce(sum(json_bytes(payload)), 0)::bigint as bytes from kept
      where not exists (select from since where type = 'tool.succeeded' and since.payload->>'signal_id' = kept.id)`,
    [runId],
  );
  return row?.bytes ?? 0;
}
