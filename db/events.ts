/** Reads the log: events with the messages or calls they refer to. */
import type { StoredBlock } from '../core/content.ts';
import type { EventType, RunStatus } from '../core/events.ts';
import { LIMITS } from '../core/limits.ts';
import type { CallStatus } from '../core/state.ts';
import { resultOf, type Tx } from './database.ts';
import { asColumns, fetchRows, selectFrom } from './query-builder.ts';
import type { EventRow } from './claim-run.ts';
import type { BatchedCall } from './approvals.ts';
import { edgeEvent, MOST_EVENTS_LATE } from './run-log.ts';

export interface LoggedEvent extends Omit<EventRow, 'occurred_at'> {
  occurred_at: Date;
  /** Content of the message it refers to. */
  content: StoredBlock[] | null;
  /** The ledger row it refers to. */
  call: {
    name: string;
    tool_use_id: string;
    arguments: unknown;
    /** Null if `is_left_out` because of its size. */
    output: unknown;
    output_bytes: number | null;
    is_left_out: boolean;
    is_error: boolean | null;
    status: CallStatus;
    error: unknown;
  } | null;
  /** The ledger rows it refers to, if there are several. */
  calls: { id: string; tool_use_id: string; name: string; arguments: unknown }[] | null;
  /** For the approval of a call batch: what is requested, or was granted. */
  steps: BatchedCall[] | null;
  /** For a turn that was interrupted: what its model had said by then, which is logged a moment later. */
  partial: { step: number; text: string } | null;
}

export interface EventFilter {
  runId: string;
  /** Only events with a higher sequence number. */
  after: number;
  /** Maximum number of events and of their bytes; the first one is always read. */
  limit: number;
  maxBytes: number;
  types?: string[] | undefined;
  turnId?: string | undefined;
}

/** Consecutive events of a log, and whether more match the filter. */
export interface EventPage<E> {
  events: E[];
  hasMore: boolean;
}

const HEAD = 'e.seq, e.type, e.schema_version, e.turn_id, e.step, e.actor, e.payload, e.occurred_at';
/** Larger outputs are not shown with events: they have an address of their own. */
const IS_LEFT_OUT = `coalesce(k.output_bytes, 0) > ${LIMITS.shownOutputBytes}`;
/**
 * A person's replacement of a call's arguments did not exist before the decision. The approvals of the call come first, nearly
 * always none: the rest of a log is only read for a call that was edited.
 */
const ARGUMENTS = `coalesce((
    select a.original_arguments from (
        select id, original_arguments from approvals
          where tool_call_id = k.id and run_id = e.run_id and original_arguments is not null offset 0) a
      cross join lateral (
        select g.commit_seq, g.seq from run_events g
          where g.run_id = e.run_id and g.commit_seq >= e.commit_seq and g.seq > e.seq and g.type = 'approval.granted' and (g.payload->>'approval_id')::uuid = a.id
          order by g.commit_seq, g.seq limit 1) g
    order by g.commit_seq, g.seq limit 1), k.arguments)`;
const PARTIAL = `
    select jsonb_build_object('step', f.step, 'text', f.payload->>'partial') from run_events f
      where f.run_id = e.run_id and f.commit_seq > e.seq and f.commit_seq <= e.seq + ${MOST_EVENTS_LATE}
        and f.turn_id = e.turn_id and f.type = 'model.failed' and f.payload->>'partial' is not null
      order by f.commit_seq desc, f.seq desc limit 1`;
const COLUMNS = `
  ${HEAD}, m.content,
  case when k.id is not null then jsonb_build_object('name', k.name, 'tool_use_id', k.tool_use_id, 'arguments', ${ARGUMENTS},
    'output', case when not ${IS_LEFT_OUT} then k.output end, 'output_bytes', k.output_bytes, 'is_left_out', ${IS_LEFT_OUT},
    'is_error', k.is_error, 'status', k.status, 'error', k.error) end as call,
  case when e.type = 'client_tools.requested' then (
    select jsonb_agg(jsonb_build_object('id', c.id, 'tool_use_id', c.tool_use_id, 'name', c.name,
      'arguments', c.arguments) order by c.step, c.place)
    from tool_calls c where c.id in (select jsonb_array_elements_text(e.payload->'tool_call_ids')::uuid)) end as calls,
  case when e.type in ('approval.requested', 'approval.granted') and e.payload->'plan_id' is not null then (
    select case when e.type = 'approval.requested' then coalesce(a.original_arguments, a.arguments) else a.arguments end->'steps'
    from approvals a where a.id = (e.payload->>'approval_id')::uuid) end as steps,
  case when e.type = 'turn.interrupted' then (${PARTIAL}) end as partial`;
const TABLES = `
  run_events e
  join runs r on r.id = e.run_id
  ${asColumns(`(e.payload->>'tool_call_id')::uuid as call,
    case when e.payload->'tool' is not null then null when e.type in ('model.responded', 'workflow.concluded', 'turn.completed') then (e.payload->>'ordinal')::int
      when e.type = 'node.completed' then (e.payload->>'answer')::int end as ordinal`)} p
  left join messages m on m.lineage = r.lineage and m.ordinal = p.ordinal
  left join tool_calls k on k.id = p.call`;
/** A page of a run's log, ordered by `seq`, with what events refer to. */
export async function listEvents(tx: Tx, filter: EventFilter): Promise<EventPage<LoggedEvent>> {
  return readPage<LoggedEvent>(tx, filter, { columns: COLUMNS, tables: TABLES, shown: LIMITS.shownOutputBytes });
}

/** The start of a page of a followed log, and the turn followed; `id` identifies the page. */
export interface FollowedLog {
  id: string;
  run_id: string;
  after: number;
  turn_id?: string | undefined;
}

/** A page of a log with the run's status at the same moment. */
export interface FollowedPage extends EventPage<LoggedEvent> {
  id: string;
  /** Null if the run does not exist. */
  status: RunStatus | null;
  last_seq: number | null;
}

/** The end of a page: its last event, and that event's commit, by which the log is indexed. Null if the page is empty. */
interface PagePlace {
  last: number | null;
  last_commit: number | null;
  has_more: boolean;
}

interface PageEnd extends Omit<FollowedPage, 'events' | 'hasMore'> {
  page: PagePlace;
}

/** A page of each log, in two round trips altogether; `limit` and `maxBytes` apply to each page. */
export async function listFollowedEvents(
  tx: Tx,
  asked: readonly FollowedLog[],
  { types, limit, maxBytes }: { types: readonly EventType[]; limit: number; maxBytes: number },
): Promise<FollowedPage[]> {
  const page = { limit, bytes: maxBytes, types, shown: LIMITS.shownOutputBytes };
  const ends = await tx.query<PageEnd>(
    `select a.id, r.status, r.last_seq, events_page($2::jsonb || jsonb_strip_nulls(jsonb_build_object(
        'run_id', a.run_id, 'after', a.after, 'turn_id', a.turn_id))) as page
      from jsonb_to_recordset($1::jsonb) a (id text, run_id uuid, after bigint, turn_id uuid)
        left join lateral (select status, last_seq from runs where id = a.run_id offset 0) r on true`,
    [JSON.stringify(asked), JSON.stringify(page)],
  );
  const pages = new Map(ends.map(({ id, page: place }) => [id, place]));
  const shown = asked.flatMap((each) => {
    const { last = null, last_commit = null } = pages.get(each.id) ?? {};
    return last === null || last_commit === null ? [] : [{ ...each, last, last_commit }];
  });
  const events = new Map<string, LoggedEvent[]>(ends.map(({ id }) => [id, []]));
  for (const { page_id: id, ...event } of shown.length > 0 ? await readFollowed(tx, shown, types) : [])
    events.get(id)?.push(event);
  return ends.map(({ page: { has_more: hasMore }, ...end }) => ({ ...end, hasMore, events: events.get(end.id) ?? [] }));
}

/** The events of pages whose ends are known. Ends the transaction. */
async function readFollowed(
  tx: Tx,
  shown: readonly (FollowedLog & { last: number; last_commit: number })[],
  types: readonly EventType[],
): Promise<(LoggedEvent & { page_id: string })[]> {
  // Reads each log separately, whatever the planner would do with several.
  return tx.last<LoggedEvent & { page_id: string }>(
    `select a.id as page_id, p.*
      from jsonb_to_recordset($1::jsonb) a (id text, run_id uuid, after bigint, last bigint, last_commit bigint, turn_id uuid)
        cross join lateral (select ${COLUMNS} from ${TABLES} where e.run_id = a.run_id and e.seq > a.after and e.seq <= a.last
          and e.commit_seq > a.after and e.commit_seq <= a.last_commit
          and e.type = any($2::text[]) and (a.turn_id is null or e.turn_id = a.turn_id) offset 0) p
      order by a.id, p.seq`,
    [JSON.stringify(shown), [...types]],
  );
}

/** A logged event without what it refers to. */
export type EventHead = Omit<LoggedEvent, 'content' | 'call' | 'calls' | 'partial'>;

/** A page of a run's log in order of `seq`. */
export async function listEventHeads(tx: Tx, filter: EventFilter): Promise<EventPage<EventHead>> {
  return readPage<EventHead>(tx, filter, { columns: HEAD, tables: 'run_events e' });
}

/** First the database finds how many events fit, then they are read. */
async function readPage<E extends object>(
  tx: Tx,
  { runId, after, limit, maxBytes, types, turnId }: EventFilter,
  from: { columns: string; tables: string; shown?: number },
): Promise<EventPage<E>> {
  const asked = { run_id: runId, after, limit, bytes: maxBytes, types, turn_id: turnId, shown: from.shown };
  const {
    last,
    last_commit: lastCommit,
    has_more: hasMore,
  } = resultOf(
    await tx.query<{ result: PagePlace }>('select events_page($1::jsonb) as result', [JSON.stringify(asked)]),
  );
  if (last === null) return { events: [], hasMore };
  const query = selectFrom(from.columns, from.tables, [
    ['e.run_id', '=', runId],
    ['e.seq', '>', after],
    ['e.seq', '<=', last],
    ['e.commit_seq', '>', after],
    ['e.commit_seq', '<=', lastCommit ?? last],
    ['e.type', 'in', types],
    ['e.turn_id', '=', turnId],
  ]);
  return { events: await fetchRows<E>(tx, query.orderBy(['e.commit_seq', 'e.seq'])), hasMore };
}

/** Stored events after `after`, in order; without `limit` all of them. Times are RFC 3339 strings with the database's precision. */
export async function readEvents(
  tx: Tx,
  { runId, after, limit = null }: { runId: string; after: number; limit?: number | null },
): Promise<EventRow[]> {
  // As in `events_page`: without statistics of a partition, each page would sort all that follows.
  const unsorted = tx.query("select set_config('enable_sort', 'off', true)");
  const read = tx.query<{ event: EventRow }>(
    `select to_jsonb(e) - '{tenant_id,workspace_id,run_id,commit_seq}'::text[] as event from run_events e
     where run_id = $1 and commit_seq > $2 and seq > $2 order by commit_seq, seq limit $3`,
    [runId, after, limit],
  );
  const [rows] = await Promise.all([read, unsorted]);
  return rows.map(({ event }) => event);
}

/** Position of a run's last event of this type; 0 if there is none. */
export async function lastEventSeq(tx: Tx, runId: string, type: EventType): Promise<number> {
  const [row] = await tx.query<{ seq: number }>(
    `select e.seq from ${edgeEvent('last', { run: '$1', where: 'e.type = $2' })} e`,
    [runId, type],
  );
  return row?.seq ?? 0;
}
