/** Reads a turn for its spans. */
import type { EventType, StoredEvent } from '../core/events.ts';
import type { TracedRun } from '../core/spans/attributes.ts';
import type { Tx } from './database.ts';

interface TracedTurn {
  runId: string;
  turnId: string;
  after: number;
  seq: number;
  types: readonly EventType[];
}

/**
 * The turn's run, and the turn's events of these types from the commit after position `after` to the one that ends at `seq`.
 * Turns of older builds do not store where they start, and are looked for from the beginning.
 */
export async function readTracedTurn(
  tx: Tx,
  { runId, turnId, after, seq, types }: TracedTurn,
): Promise<{ run: TracedRun | undefined; events: StoredEvent[] }> {
  const [[run], events] = await Promise.all([
    tx.query<TracedRun>(
      `select r.id, r.tenant_id, r.agent_id, r.agent_version, a.name as agent_name, r.thread_id, r.kind,
          coalesce(r.root_run_id, r.id) as root_run_id, r.traceparent, r.parent_run_id, r.parent_task_id, p.kind as parent_kind,
          (select t.id from turns t where t.run_id = r.parent_run_id and t.number = 1) as parent_turn_id
        from runs r left join agents a on a.id = r.agent_id left join runs p on p.id = r.parent_run_id
        where r.id = $1`,
      [runId],
    ),
    tx.query<StoredEvent>(
      `select e.seq, e.type, e.schema_version, e.turn_id, e.step, e.actor, e.payload, e.occurred_at from run_events e
        where e.run_id = $1 and e.commit_seq > greatest((select t.started_seq - 1 from turns t where t.id = $2), $3::bigint)
          and e.commit_seq <= $4 and e.turn_id = $2 and e.type = any($5) order by e.commit_seq, e.seq`,
      [runId, turnId, after, seq, types],
    ),
  ]);
  return { run, events };
}
