/** Threads as shown to people, their locks, and titles that are due. */
import type { TurnInput, RunStatus } from '../core/events.ts';
import type { StoredBlock } from '../core/content.ts';
import type { Database, Tx } from './database.ts';
import { filterByMetadata } from './filter-by-metadata.ts';
import { fetchRows, newestFirst, selectFrom } from './query-builder.ts';
import { beginsWithFork } from './thread-parts.ts';

export interface ThreadView {
  id: string;
  workspace_id: string;
  agent_id: string;
  title: string | null;
  extras: Record<string, unknown>;
  metadata: Record<string, string>;
  /** The client's own id. */
  external_id: string | null;
  head_run_id: string | null;
  total_runs: number;
  /** Start of the newest run; null without runs. */
  last_run_at: Date | null;
  last_run_status: RunStatus | null;
  created_at: Date;
  updated_at: Date;
  erased_at: Date | null;
  /** Marked as erased, with content that is still there. */
  is_erasing: boolean;
}

const COLUMNS = `t.id, t.workspace_id, t.agent_id, t.title, t.extras, t.metadata, t.external_id, t.head_run_id, t.run_count as total_runs,
  r.created_at as last_run_at, r.status as last_run_status, t.created_at,
  greatest(t.created_at, t.updated_at, r.updated_at) as updated_at, t.erased_at,
  t.erased_at is not null and exists (select from erasures e where e.kind = 'thread' and e.id = t.id) as is_erasing`;

const TABLES = 'threads t left join runs r on r.id = t.head_run_id';

interface ThreadFilter {
  workspaceId: string;
  agentId?: string | undefined;
  /** Id of the last thread of the previous page. */
  before?: string | undefined;
  /** Only threads with all of these entries. */
  metadata?: Record<string, string> | undefined;
  limit: number;
}

/** A page of threads, newest first. */
export async function listThreads(
  tx: Tx,
  { workspaceId, agentId, before, metadata, limit }: ThreadFilter,
): Promise<ThreadView[]> {
  const query = selectFrom(COLUMNS, TABLES, [
    ['t.workspace_id', '=', workspaceId],
    ['t.agent_id', '=', agentId],
  ]);
  filterByMetadata(query, { kind: 'thread', id: 't.id', column: 't.metadata', metadata });
  // Threads of children are part of their parent's work.
  void query.whereRaw('t.parent_run_id is null');
  return fetchRows<ThreadView>(tx, newestFirst(query, { table: 'threads', alias: 't', before }).limit(limit));
}

export interface FoundThread extends ThreadView {
  /** It may show parts of other threads. */
  is_forked: boolean;
}

/** A thread; undefined if there is none. */
export async function findThread(tx: Tx, id: string): Promise<FoundThread | undefined> {
  const columns = `${COLUMNS}, ${beginsWithFork('t.id')} as is_forked`;
  const [row] = await fetchRows<FoundThread>(tx, selectFrom(columns, TABLES, [['t.id', '=', id]]));
  return row;
}

/** Inserts a thread without a run. */
export async function insertThread(
  tx: Tx,
  thread: Pick<ThreadView, 'id' | 'workspace_id' | 'agent_id'> & { tenant_id: string },
): Promise<void> {
  await tx.query(
    'insert into threads (id, tenant_id, workspace_id, agent_id, created_at) values ($1, $2, $3, $4, clock_timestamp())',
    [thread.id, thread.tenant_id, thread.workspace_id, thread.agent_id],
  );
}

export interface ThreadChange {
  title?: string | null | undefined;
  extras?: Record<string, unknown> | undefined;
  metadata?: Record<string, string> | undefined;
}

/** Changes the given fields; false if the thread is erased. A title given by a person removes the due one. */
export async function updateThread(tx: Tx, id: string, { title, extras, metadata }: ThreadChange): Promise<boolean> {
  const rows = await tx.query(
    `update threads set title = case when $2 then $3 else title end, extras = coalesce($4::jsonb, extras),
       metadata = coalesce($5::jsonb, metadata), updated_at = now()
     where id = $1 and erased_at is null returning id`,
    [
      id,
      title !== undefined,
      title ?? null,
      extras ? JSON.stringify(extras) : null,
      metadata ? JSON.stringify(metadata) : null,
    ],
  );
  // After the thread, in the order of those who make titles.
  if (title !== undefined) await tx.query('delete from due_titles where thread_id = $1', [id]);
  return rows.length > 0;
}

export interface DueTitle {
  tenant_id: string;
  thread_id: string;
  attempts: number;
}

/** Takes threads whose titles are due, of all tenants. If a taker gets lost, the thread is offered again after a pause, which grows. */
export async function takeDueTitles(db: Database, limit: number): Promise<DueTitle[]> {
  return db.asMaintenance((tx) =>
    tx.query<DueTitle>(
      `update due_titles d set attempts = attempts + 1,
         due_at = clock_timestamp() + least(power(2, attempts + 1), 60) * interval '1 minute'
       where thread_id in (select thread_id from due_titles where due_at <= now() order by due_at limit $1
         for update skip locked)
       returning tenant_id, thread_id, attempts`,
      [limit],
    ),
  );
}

/** The basis of a title: a thread's first completed turn, with its answer. */
export interface FirstTurn {
  thread_id: string;
  workspace_id: string;
  run_id: string;
  agent_id: string;
  agent_version: string;
  model_override: string | null;
  input: TurnInput;
  answer: StoredBlock[] | null;
}

/** Columns of a thread's first completed turn `u` or its run `b`. */
export const firstCompletedTurn = (thread: string, columns: string) =>
  `select ${columns} from runs b join turns u on u.run_id = b.id where b.thread_id = ${thread} and u.status = 'complete'
     order by b.thread_place, u.number limit 1`;

/**
 * First completed turns of threads without a title; nothing for threads that are erased or lack such a turn. The planner does
 * not see the number of ids (as in `findRuns`).
 */
export async function listFirstTurns(tx: Tx, threadIds: readonly string[]): Promise<FirstTurn[]> {
  return tx.query<FirstTurn>(
    `select t.id as thread_id, t.workspace_id, r.id as run_id, r.agent_id, r.agent_version,
       r.config->>'model_override' as model_override, u.input, m.content as answer
     from threads t cross join lateral (${firstCompletedTurn('t.id', 'u.*')}) u join runs r on r.id = u.run_id
       left join messages m on m.lineage = r.lineage and m.ordinal = u.output_ordinal
     where t.id = any(array(select unnest($1::uuid[]))) and t.title is null and t.erased_at is null and r.erased_at is null`,
    [threadIds],
  );
}

/**
 * Sets titles of threads that have none, unless what they are made from was erased meanwhile, and removes the threads from the
 * due ones. An erasure holds the thread: its run is looked at once that has ended, by a statement of its own.
 */
export async function setTitles(tx: Tx, titles: readonly { thread: string; title: string | null }[]): Promise<void> {
  const ids = titles.map(({ thread }) => thread);
  await tx.query('select from threads where id = any($1::uuid[]) order by id for no key update', [ids]);
  await tx.query(
    `with given as (select thread, title from jsonb_to_recordset($1::jsonb) as x (thread uuid, title text)),
       named as (update threads t set title = (select title from given where thread = t.id)
         where t.id = any(array(select thread from given where title is not null)) and t.title is null and t.erased_at is null
           and (${firstCompletedTurn('t.id', 'b.erased_at')}) is null)
     delete from due_titles where thread_id = any(array(select thread from given))`,
    [JSON.stringify(titles)],
  );
}

/** Whether the workspace has this thread, and it is not erased. */
export async function hasThread(tx: Tx, of: { id: string; workspaceId: string }): Promise<boolean> {
  const rows = await tx.query('select 1 from threads where id = $1 and workspace_id = $2 and erased_at is null', [
    of.id,
    of.workspaceId,
  ]);
  return rows.length > 0;
}

export interface ThreadRow {
  id: string;
  workspace_id: string;
  /** The last run created on it; null if there is none. */
  head_run_id: string | null;
  run_count: number;
  erased_at: Date | null;
}

/**
 * Locks the thread's row until the transaction ends: of two runs that continue it, the second sees the first. The row says
 * which run came last; ids and times of runs come from clocks that may be minutes apart.
 */
export async function lockThread(tx: Tx, id: string): Promise<ThreadRow | undefined> {
  const [row] = await tx.query<ThreadRow>(
    'select id, workspace_id, head_run_id, run_count, erased_at from threads where id = $1 for update',
    [id],
  );
  return row;
}

/** Locks the thread of a run, and before it those of the runs above it, topmost first. */
export async function lockThreadsDownTo(tx: Tx, runId: string): Promise<ThreadRow[]> {
  return tx.query<ThreadRow>(
    `with recursive above as (
       select thread_id, parent_run_id, 0 as levels from runs where id = $1 union all
       select r.thread_id, r.parent_run_id, a.levels + 1 from above a join runs r on r.id = a.parent_run_id)
     select t.id, t.workspace_id, t.head_run_id, t.run_count, t.erased_at from above a join threads t on t.id = a.thread_id
       order by a.levels desc for update of t`,
    [runId],
  );
}

/** Like `lockThread`, for a thread that may not exist: of two that would create it, the second finds the first one's. */
export async function lockThreadOrName(tx: Tx, id: string): Promise<ThreadRow | undefined> {
  const thread = await lockThread(tx, id);
  if (thread) return thread;
  await tx.query(`select pg_advisory_xact_lock(hashtextextended('drover:thread:' || $1, 0))`, [id]);
  return lockThread(tx, id);
}
