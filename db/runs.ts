/** Reads, locks and lists runs; `commit_run` writes them. */
import type { StoredBlock } from '../core/content.ts';
import type { RunKind, RunStatus } from '../core/events.ts';
import type { RunConfig } from '../core/run-config.ts';
import type { Wait } from '../core/waits.ts';
import type { Reading } from '../core/output-format.ts';
import type { Tx } from './database.ts';
import { pageOfSized, untilFull, type Page, type Sized } from './page-bytes.ts';
import { fetchRows, selectFrom } from './query-builder.ts';
import { filterByMetadata } from './filter-by-metadata.ts';
import type { RunRow } from './claim-run.ts';
import { PURPOSES_IN_NO_RUN } from './own-model-calls.ts';
import { SUSPENDED_BY } from './suspension.ts';
import type { TurnRow } from './turns.ts';

/** An open wait, with the question of `ask_user`, or the call that the client must execute. */
export interface OpenWait extends Wait {
  id: string;
  until: string;
  question?: string | null;
  /** The awaited child; null until it exists. */
  run_id?: string | null;
  call?: { tool_use_id: string; tool: string; input: Record<string, unknown> };
}

/** An undecided approval. */
export interface AwaitedApproval {
  id: string;
  /** Name of the human node that asks, if any. */
  name: string | null;
  kind: 'approval' | 'unknown' | 'conflict';
  tool: string;
  tool_call_id: string | null;
  plan_id: string | null;
  message: string | null;
  until: string;
}

export interface ProviderWait {
  since: string;
  /** Time of the next attempt, and the last error. */
  next_at: string;
  error: { code: string; message: string };
  until: string;
}

/** A run as the API shows it; `output` is the content of its last answer, or of what came in its place. */
export interface RunView {
  id: string;
  workspace_id: string;
  agent_id: string;
  agent_version: string;
  thread_id: string;
  status: RunStatus;
  /** Time since which it waits for its next turn. */
  idle_since: Date | null;
  /** Open waits, ordered by end; times are RFC 3339. */
  waits: OpenWait[] | null;
  /** Its wait for an unavailable model provider; times are RFC 3339. */
  provider_wait: ProviderWait | null;
  /** Open approvals, ordered by expiry; times are RFC 3339. */
  approvals: AwaitedApproval[] | null;
  open_turn_id: string | null;
  /** What suspends an unfinished run. */
  suspended_by: 'tenant' | 'agent' | null;
  /** How to read the value of the last answer, if it had to fit a schema. */
  structured: Reading | null;
  stop_reason: string | null;
  error: { code: string; message: string } | null;
  output: StoredBlock[] | null;
  /** Its last turn, where that has ended without an answer: `output` is that turn's then. */
  cut_off: Pick<TurnRow, 'id' | 'status' | 'stop_reason' | 'error' | 'partial'> | null;
  keep_open: boolean;
  config: RunConfig;
  /** The client's own metadata. */
  metadata: Record<string, string> | null;
  steps: number;
  turn_count: number;
  tokens_in: number;
  tokens_out: number;
  cost_usd: string | null;
  last_seq: number;
  kind: RunKind;
  parent_run_id: string | null;
  /** The topmost run above it; its own id if it is no child. */
  root_run_id: string;
  parent_task_id: string | null;
  depth: number;
  forked_from_run_id: string | null;
  forked_at_seq: number | null;
  retried_from: string | null;
  created_at: Date;
  started_at: Date | null;
  completed_at: Date | null;
  /** When its content was erased. */
  erased_at: Date | null;
  updated_at: Date;
}

/**
 * Usage of a workflow: all runs below it, and its planner's calls. One row; null without usage, and for other runs, for which
 * nothing is read.
 */
const WORKFLOW_SPEND = `
  with recursive below as (
    select b.id, b.tokens_in, b.tokens_out, b.cost_usd from runs b
      where r.kind = 'workflow' and b.parent_run_id = r.id union all
    select c.id, c.tokens_in, c.tokens_out, c.cost_usd from below b join runs c on c.parent_run_id = b.id)
  select sum(u.tokens_in)::bigint as tokens_in, sum(u.tokens_out)::bigint as tokens_out, sum(u.cost_usd) as cost_usd,
    coalesce(bool_or(u.cost_usd is null), false) as unpriced
  from (select tokens_in, tokens_out, cost_usd from below union all
    select r.tokens_in, r.tokens_out, r.cost_usd where r.kind = 'workflow' and r.tokens_in > 0 union all
    -- Builds before did not tell the log what a planner was asked.
    select o.tokens_in, o.tokens_out, o.cost_usd from own_model_calls o
      where r.kind = 'workflow' and r.tokens_in = 0 and o.run_id = r.id and o.state in ('settled', 'estimated')
        and o.purpose not in (${PURPOSES_IN_NO_RUN})) u`;

/** What an unfinished run waits for. Read once, also where its size counts (`offset 0`). */
const WAITING = `
  select case when r.status in ('awaiting_tool', 'awaiting_human') then (
      select jsonb_agg(jsonb_build_object('id', w.id, 'type', w.type, 'name', w.name, 'until', w.until) || case w.type
          when 'user' then jsonb_build_object('question', coalesce(k.remote->'question', k.arguments->'question'))
          when 'tool_results' then jsonb_build_object('call',
            jsonb_build_object('tool_use_id', k.tool_use_id, 'tool', k.name, 'input', k.arguments))
          when 'child' then jsonb_build_object('run_id', (select c.id from runs c
            where c.parent_run_id = r.id and c.parent_task_id = w.id))
          else '{}' end order by w.until, w.id)
      from waits w join tool_calls k on k.id = w.id where w.run_id = r.id and w.closed_at is null) end as waits,
    case when r.status in ('awaiting_tool', 'awaiting_human') then (
      select jsonb_agg(jsonb_build_object('id', a.id, 'kind', a.kind, 'tool', a.tool, 'tool_call_id', a.tool_call_id,
          'plan_id', a.plan_id, 'message', a.message, 'until', a.expires_at, 'name', case when a.tool = 'ask_user' then r.waiting_for->>'name' end) order by a.expires_at, a.id)
      from approvals a where a.run_id = r.id and a.status = 'pending') end as approvals
  offset 0`;

const HEAD = `
  r.id, r.workspace_id, r.agent_id, r.agent_version, r.thread_id, r.status, r.open_turn_id,
    r.structured, r.stop_reason, r.error, r.keep_open, r.config, r.metadata, r.steps, r.turn_count,
    coalesce(spent.tokens_in, r.tokens_in) as tokens_in, coalesce(spent.tokens_out, r.tokens_out) as tokens_out,
    case when spent.tokens_in is null then r.cost_usd when not spent.unpriced then spent.cost_usd end as cost_usd, r.last_seq,
    r.kind, r.parent_run_id, r.root_run_id, r.parent_task_id, r.depth, r.forked_from_run_id, r.forked_at_seq, r.retried_from, r.created_at, r.started_at, r.completed_at,
    r.updated_at, r.erased_at, r.idle_since,
    waiting.waits,
    case when r.waiting_for->>'type' = 'provider' then r.waiting_for || coalesce((
      select jsonb_agg(jsonb_build_object('next_at', o.next_at, 'error', o.error - 'only') order by o.next_at)->0
      from parked_runs p join model_outages o on o.name = p.outage where p.run_id = r.id), '{}') end as provider_wait,
    waiting.approvals,
    ${SUSPENDED_BY} as suspended_by`;

const HEAD_TABLES = `runs r cross join lateral (${WORKFLOW_SPEND}) spent cross join lateral (${WAITING}) waiting`;

const COLUMNS = `${HEAD}, m.content as output, u.cut_off`;

const TABLES = `${HEAD_TABLES}
  cross join lateral (
    select case when u.id is null then r.output_ordinal else u.output_ordinal end as ordinal,
      case when u.id is not null then
        jsonb_build_object('id', u.id, 'status', u.status, 'stop_reason', u.stop_reason, 'error', u.error) end as cut_off
      from (select 1) one left join turns u on u.run_id = r.id and u.number = r.turn_count and u.status in ('failed', 'cancelled')
      offset 0) u
  left join messages m on m.lineage = r.lineage and m.ordinal = u.ordinal`;

/** The first wait is shown twice. */
const SIZED = `${COLUMNS}, coalesce(json_bytes(m.content), 0) + 2 * coalesce(json_bytes(waiting.waits), 0)
  + coalesce(json_bytes(waiting.approvals), 0) as bytes`;

export async function findRun(tx: Tx, id: string): Promise<RunView | undefined> {
  const [row] = await tx.query<RunView>(`select ${COLUMNS} from ${TABLES} where r.id = $1`, [id]);
  return row;
}

/**
 * These runs, as far as they exist, in any order. The subquery keeps the planner from counting the ids: for `any($1)`, a
 * generic plan looks dearer than a new one each time (`withTenant` leaves the choice), and planning takes many times as long
 * as reading.
 */
export async function findRuns(tx: Tx, ids: readonly string[]): Promise<RunView[]> {
  return tx.query<RunView>(`select ${COLUMNS} from ${TABLES} where r.id = any(array(select unnest($1::uuid[])))`, [
    ids,
  ]);
}

/** A run's owner and kind, for uses that show nothing of it. */
export type RunRef = Pick<RunView, 'id' | 'workspace_id' | 'agent_id' | 'kind' | 'erased_at'>;

/** Refs of these runs, read as in `findRuns`. */
export async function findRunRefs(tx: Tx, ids: readonly string[]): Promise<RunRef[]> {
  return tx.query<RunRef>(
    'select id, workspace_id, agent_id, kind, erased_at from runs where id = any(array(select unnest($1::uuid[])))',
    [ids],
  );
}

/** A run without what it has answered, which may be large. */
export type RunHead = Omit<RunView, 'output' | 'cut_off'>;

/** Heads of these runs, as far as they exist, in any order. */
export async function findRunHeads(tx: Tx, ids: readonly string[]): Promise<RunHead[]> {
  return tx.query<RunHead>(`select ${HEAD} from ${HEAD_TABLES} where r.id = any(array(select unnest($1::uuid[])))`, [
    ids,
  ]);
}

export interface RunFilter {
  workspaceId?: string | undefined;
  agentId?: string | undefined;
  threadId?: string | undefined;
  status?: RunStatus[] | undefined;
  /** Only children of this run, or all runs below it. */
  parentId?: string | undefined;
  rootId?: string | undefined;
  createdAfter?: string | undefined;
  createdBefore?: string | undefined;
  /** Only runs with all of these entries. */
  metadata?: Record<string, string> | undefined;
  errorCode?: string | undefined;
  /** Only runs that ended, or last changed if unfinished, since then. */
  changedSince?: string | undefined;
  /**
   * Only runs that are the last unerased of their thread, that work for no other run (as children of a workflow do), and whose
   * agent and session take new runs.
   */
  isRetryable?: boolean | undefined;
  /** Only runs before this one; lists are newest first. */
  before?: string | undefined;
  limit: number;
}

const RETRYABLE = `r.parent_task_id is null and r.erased_at is null
  and not exists (select from runs l where l.thread_id = r.thread_id and l.thread_place > r.thread_place and l.erased_at is null)
  and not exists (select from agents a where a.id = r.agent_id and a.status = 'deprecated')
  and not exists (select from sessions s where s.id = r.thread_id and s.archived_at is not null)`;

/** A page of runs, newest first: those of a thread by their places on it. An index serves each filter. */
export async function listRuns(tx: Tx, filter: RunFilter): Promise<Page<RunView & { thread_place: number }>> {
  const { before, ...conditions } = filter;
  const isOfThread = filter.threadId !== undefined;
  const query = matching(`${SIZED}, r.thread_place`, TABLES, isOfThread ? conditions : filter);
  if (isOfThread && before !== undefined)
    void query.whereRaw('r.thread_place < (select b.thread_place from runs b where b.id = ?)', [before]);
  const order = isOfThread ? 'thread_place desc' : 'id desc';
  const { sql, bindings } = query
    .orderByRaw(`r.${order}`)
    .limit(filter.limit + 1)
    .toSQL()
    .toNative();
  const found = await tx.query<RunView & Sized & { thread_place: number }>(untilFull(sql, order), bindings);
  return pageOfSized(found, filter.limit);
}

/** Ids of runs, newest first. */
export async function listRunIds(tx: Tx, filter: RunFilter): Promise<{ id: string }[]> {
  return fetchRows(tx, matching('r.id', 'runs r', filter).orderBy('r.id', 'desc').limit(filter.limit));
}

/** Number of matching runs on all pages. */
export async function countRuns(tx: Tx, filter: Omit<RunFilter, 'limit' | 'before'>): Promise<number> {
  const [row] = await fetchRows<{ count: number }>(tx, matching('count(*)::int as count', 'runs r', filter));
  return row?.count ?? 0;
}

/** The end of run `r`, or its last change if unfinished, as shown in answers. */
export const CHANGED_AT = `date_trunc('milliseconds', coalesce(r.completed_at, r.updated_at))`;

/** A query on runs, with a filter's conditions. */
export function matching(
  columns: string,
  tables: string,
  filter: Omit<RunFilter, 'limit'>,
): ReturnType<typeof selectFrom> {
  const query = selectFrom(columns, tables, [
    ['r.workspace_id', '=', filter.workspaceId],
    ['r.agent_id', '=', filter.agentId],
    ['r.thread_id', '=', filter.threadId],
    ['r.parent_run_id', '=', filter.parentId],
    ['r.root_run_id', '=', filter.rootId],
    ['r.status', 'in', filter.status],
    ['r.created_at', '>=', filter.createdAfter],
    ['r.created_at', '<', filter.createdBefore],
    ['r.id', '<', filter.before],
  ]);
  filterByMetadata(query, { kind: 'run', id: 'r.id', column: 'r.metadata', metadata: filter.metadata });
  if (filter.errorCode !== undefined) void query.whereRaw("r.error->>'code' = ?", [filter.errorCode]);
  if (filter.isRetryable) void query.whereRaw(RETRYABLE);
  if (filter.changedSince !== undefined) void query.whereRaw(`${CHANGED_AT} >= ?`, [filter.changedSince]);
  return query;
}

/** Of these runs, those that wait for something, including providers. */
export async function listWaiting(tx: Tx, ids: readonly string[]): Promise<RunView[]> {
  return tx.query<RunView>(
    `select ${COLUMNS} from ${TABLES} where r.id = any($1::uuid[])
       and (r.status in ('awaiting_tool', 'awaiting_human') or r.waiting_for is not null)`,
    [ids],
  );
}

/** A page of the runs below a run, oldest first. */
export async function listBelow(tx: Tx, id: string, limit: number): Promise<Page<RunView>> {
  const below = `with recursive below as (
       select id from runs where parent_run_id = $1 union all
       select c.id from below b join runs c on c.parent_run_id = b.id)
     select ${SIZED} from ${TABLES} where r.id in (select id from below) order by r.created_at, r.id limit $2`;
  return pageOfSized(await tx.query<RunView & Sized>(untilFull(below, 'created_at, id'), [id, limit + 1]), limit);
}

/** Ids of the runs below given runs, parents before children. */
export async function listBelowIds(tx: Tx, ids: readonly string[]): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `with recursive below as (
       select id, 1 as levels from runs where parent_run_id = any($1::uuid[]) union all
       select c.id, b.levels + 1 from below b join runs c on c.parent_run_id = b.id)
     select id from below group by id order by max(levels), id`,
    [ids],
  );
  return rows.map((row) => row.id);
}

/** Of these runs, those that have not ended. */
export async function findUnfinished(tx: Tx, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await tx.query<{ id: string }>(
    `select id from runs where id = any(array(select unnest($1::uuid[]))) and status not in ('completed', 'failed', 'cancelled')`,
    [ids],
  );
  return new Set(rows.map(({ id }) => id));
}

/** The unfinished children of a run, oldest first. */
export async function listUnfinishedChildren(tx: Tx, parentId: string): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select id from runs where parent_run_id = $1 and status not in ('completed', 'failed', 'cancelled') order by id`,
    [parentId],
  );
  return rows.map(({ id }) => id);
}

/**
 * Locks the unfinished runs below a run until the transaction ends, in the order of their ids, in which several runs are committed
 * together; returns its unfinished children, oldest first. One that is begun meanwhile is not among them.
 */
export async function lockUnfinishedBelow(tx: Tx, parentId: string): Promise<string[]> {
  const open = `status not in ('completed', 'failed', 'cancelled')`;
  const rows = await tx.query<{ id: string; parent_run_id: string }>(
    `select id, parent_run_id from runs where ${open} and id = any(array(
         with recursive below as (
           select id from runs where parent_run_id = $1 and ${open} union all
           select c.id from below b join runs c on c.parent_run_id = b.id and c.${open})
         select id from below))
       order by id for update`,
    [parentId],
  );
  return rows.filter((row) => row.parent_run_id === parentId).map(({ id }) => id);
}

/** A run's row in the form drivers use, without a lock. */
export async function findRunRow(tx: Tx, id: string): Promise<RunRow | undefined> {
  const [row] = await tx.query<{ run: RunRow }>('select to_jsonb(r) as run from runs r where id = $1', [id]);
  return row?.run;
}

/** Locks the run's row until the transaction ends, as is required for appends by the API and tool workers. */
export async function lockRun(tx: Tx, id: string): Promise<RunRow | undefined> {
  const [row] = await tx.query<{ run: RunRow }>('select to_jsonb(r) as run from runs r where id = $1 for update', [id]);
  return row?.run;
}

/** The newest run of a thread that is not erased. */
export async function lastUnerasedRun(tx: Tx, threadId: string): Promise<RunRow | undefined> {
  const [row] = await tx.query<{ run: RunRow }>(
    'select to_jsonb(r) as run from runs r where thread_id = $1 and erased_at is null order by thread_place desc limit 1',
    [threadId],
  );
  return row?.run;
}
