/** The log as it is read: events with the message or the call that they refer to. */
import type { StoredBlock } from '../core/content.ts';
import type { EventType } from '../core/events.ts';
import type { CallStatus } from '../core/state.ts';
import type { Tx } from './database.ts';
import { fetchRows, selectFrom } from './query-builder.ts';
import type { EventRow } from './claim-run.ts';

export interface LoggedEvent extends Omit<EventRow, 'occurred_at'> {
  occurred_at: Date;
  /** Content of the message that the event speaks of. */
  content: StoredBlock[] | null;
  /** The ledger row that the event speaks of. */
  call: {
    name: string;
    arguments: unknown;
    output: unknown;
    is_error: boolean | null;
    status: CallStatus;
    error: unknown;
  } | null;
  /** The ledger rows that the event speaks of, where it speaks of several. */
  calls: { id: string; tool_use_id: string; name: string; arguments: unknown }[] | null;
}

export interface EventFilter {
  runId: string;
  /** Events with a higher sequence number than this. */
  after: number;
  limit: number;
  types?: string[] | undefined;
  turnId?: string | undefined;
}

/** What a person put in place of a call's arguments was not there before the decision. */
const ARGUMENTS = `coalesce((
    select a.original_arguments from approvals a
      join run_events g on g.run_id = a.run_id and g.seq > e.seq and g.type = 'approval.granted' and (g.payload->>'approval_id')::uuid = a.id
    where a.run_id = e.run_id and a.tool_call_id = k.id and a.original_arguments is not null
    order by g.seq limit 1), k.arguments)`;
const COLUMNS = `
  e.seq, e.type, e.schema_version, e.turn_id, e.step, e.actor, e.payload, e.occurred_at, m.content,
  case when k.id is not null then jsonb_build_object('name', k.name, 'arguments', ${ARGUMENTS}, 'output', k.output,
    'is_error', k.is_error, 'status', k.status, 'error', k.error) end as call,
  case when e.type = 'client_tools.requested' then (
    select jsonb_agg(jsonb_build_object('id', c.id, 'tool_use_id', c.tool_use_id, 'name', c.name,
      'arguments', c.arguments) order by c.step, c.place)
    from tool_calls c where c.id in (select jsonb_array_elements_text(e.payload->'tool_call_ids')::uuid)) end as calls`;
const TABLES = `
  run_events e
  join runs r on r.id = e.run_id
  left join messages m on m.lineage = r.lineage and m.ordinal = (e.payload->>'ordinal')::int
    and e.type in ('model.responded', 'turn.completed')
  left join tool_calls k on k.id = (e.payload->>'tool_call_id')::uuid`;

/** A page of a run's log in order of `seq`. One query, whatever the events refer to. */
export async function listEvents(tx: Tx, filter: EventFilter): Promise<LoggedEvent[]> {
  const query = selectFrom(COLUMNS, TABLES, [
    ['e.run_id', '=', filter.runId],
    ['e.seq', '>', filter.after],
    ['e.type', 'in', filter.types],
    ['e.turn_id', '=', filter.turnId],
  ]);
  return fetchRows<LoggedEvent>(tx, query.orderBy('e.seq').limit(filter.limit));
}

/** Consecutive events as they are stored, times as RFC 3339 strings as precise as the database has them; all after `after` without a limit. */
export async function readEvents(
  tx: Tx,
  { runId, after, limit = null }: { runId: string; after: number; limit?: number | null },
): Promise<EventRow[]> {
  const rows = await tx.query<{ event: EventRow }>(
    `select to_jsonb(e) - '{tenant_id,workspace_id,run_id}'::text[] as event from run_events e
     where run_id = $1 and seq > $2 order by seq limit $3`,
    [runId, after, limit],
  );
  return rows.map(({ event }) => event);
}

/** Position of the last event of this type in a run's log; 0 if there is none. */
export async function lastEventSeq(tx: Tx, runId: string, type: EventType): Promise<number> {
  const [row] = await tx.query<{ seq: number }>(
    'select coalesce(max(seq), 0) as seq from run_events where run_id = $1 and type = $2',
    [runId, type],
  );
  return row?.seq ?? 0;
}
