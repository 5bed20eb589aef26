/** The log as it is read: events with the message or the call that they refer to. */
import type { Tx } from './database.ts';
import type { EventRow } from './run-store.ts';

export interface LoggedEvent extends Omit<EventRow, 'occurred_at'> {
  occurred_at: Date;
  /** Content of the message that the event speaks of. */
  content: { type: string; text?: string; thinking?: string }[] | null;
  /** The ledger row that the event speaks of. */
  call: {
    name: string;
    arguments: unknown;
    output: unknown;
    is_error: boolean | null;
    status: string;
    error: unknown;
  } | null;
}

export interface EventFilter {
  run: string;
  /** Exclusive. */
  after: number;
  limit: number;
  types?: string[] | undefined;
  turn?: string | undefined;
}

/** A page of a run's log in order of `seq`. One query, whatever the events refer to. */
export async function listEvents(tx: Tx, filter: EventFilter): Promise<LoggedEvent[]> {
  return tx.query<LoggedEvent>(
    `select e.seq, e.type, e.schema_version, e.turn_id, e.step, e.actor, e.payload, e.occurred_at, m.content,
       case when k.id is not null then jsonb_build_object('name', k.name, 'arguments', k.arguments, 'output', k.output,
         'is_error', k.is_error, 'status', k.status, 'error', k.error) end as call
     from run_events e
     join runs r on r.id = e.run_id
     left join messages m on m.lineage = r.lineage and m.ordinal = (e.payload->>'ordinal')::int
       and e.type in ('model.responded', 'turn.completed')
     left join tool_calls k on k.id = (e.payload->>'tool_call_id')::uuid
     where e.run_id = $1 and e.seq > $2 and ($4::text[] is null or e.type = any($4)) and ($5::uuid is null or e.turn_id = $5)
     order by e.seq limit $3`,
    [filter.run, filter.after, filter.limit, filter.types ?? null, filter.turn ?? null],
  );
}
