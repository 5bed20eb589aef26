/**
 * Erasure. Each table with content of runs has its eraser here, or states in its projection what is left. Tables whose texts
 * are no content of runs say so in their comment, set by a migration (`NO_CONTENT`). A test fails for other tables, and for
 * columns left without a reason (`KEPT_COLUMNS`). The rest must match the projections of an erased log (`core/erasure.ts`).
 */
import type { Tx } from './database.ts';
import { eraseFilesOfThread } from './files.ts';
import { readEvents } from './events.ts';
import { forgetAskedSkills } from './skills.ts';
import { firstCompletedTurn } from './threads.ts';
import { ERASE_OBJECTIVES } from './objectives.ts';
import { findForgetTargets, forgetInRuns, removeMemories, restoreMerged } from './memory-forget.ts';
import { reinstateMemories } from './memory-entries.ts';
import { lockToForget } from './memory-lock.ts';
import type { StoredEvent } from '../core/events.ts';
import { PROJECTIONS } from '../core/projections.ts';
import type { Projection } from '../core/projections/projection.ts';

/** Prefix of the comment of tables whose texts do not come from runs; the reason follows. */
export const NO_CONTENT = 'No content of runs: ';

/** Whether an answer stored for a key is about the run itself. */
const OF_RUN = `$1 in (response->>'run_id', response->>'id')`;

/**
 * Whether an answer stored for a key shows the run, as that to a workflow does, or a task or handoff of it. An answer without
 * an id of what it shows has only ids, states and positions, as to a turn, or was given in no run, as to a direct execution.
 */
const SHOWS_OF_RUN = `shown_id = any(array(select $1::text union all
  select id::text from tasks where $1::uuid in (run_id, workflow_id, parent_run_id) union all
  select id::text from handoffs where $1::uuid in (source_run_id, target_run_id, returned_run_id, workflow_id)))`;

/** Replaces texts of a task or handoff in such answers. */
const BLANK = {
  subtask_id: '',
  description: '',
  input: {},
  requirements: {},
  last_error: null,
  error: null,
  output: null,
  reason: '',
  expected_action: null,
  context: {},
  summary: {},
  rejection: null,
};

/** Tasks of a workflow, or of a run that works for one. */
const TASKS_OF_RUN = 'run_id = $1 or workflow_id = $1 or parent_run_id = $1';
const HANDOFFS_OF_RUN = 'source_run_id = $1 or target_run_id = $1 or returned_run_id = $1 or workflow_id = $1';

/**
 * Locks rows in order of their ids before they change, since two erasures may touch the same ones (of a workflow and of a run
 * below it) and must not deadlock.
 */
function held(table: string, where: string): string {
  return `with held as materialized (select id from ${table} where ${where} order by id for no key update)`;
}

/** By table, with `$1` as the run. Executed in this order, in the erasing transaction. */
export const ERASERS: Readonly<Record<string, string>> = {
  messages: 'select erase_messages($1)',
  checkpoints: 'select erase_checkpoints($1)',
  // The name of an unregistered tool comes from the model.
  tool_calls: `update tool_calls set arguments = '{}', asked = null, output = null, model_output = null, remote = remote - 'question' - 'answer',
    name = case when tool_id is null then '' else name end,
    error = case when error is not null then jsonb_build_object('code', error->'code', 'message', '') end where run_id = $1`,
  // Of the settings, only the user is content.
  runs: `update runs set metadata = case when metadata is not null then '{}'::jsonb end,
    config = case when config ? 'session' then jsonb_set(config, '{session,user_id}', '""') else config - 'for_user' end,
    queued = case when queued is not null then jsonb_set(queued, '{input}', '{"message": ""}') end,
    error = case when error is not null then jsonb_build_object('code', error->'code', 'message', '') end where id = $1`,
  turns: `update turns set input = jsonb_build_object('message', ''),
    error = case when error is not null then jsonb_build_object('code', error->'code', 'message', '') end where run_id = $1`,
  // Clients' own data on turns.
  turn_extras: 'delete from turn_extras where run_id = $1',
  // Steps may name tools that a model made up.
  plans: `update plans set purpose = '', reason = null, steps = coalesce((select jsonb_agg(step || '{"tool": ""}' order by place)
    from jsonb_array_elements(steps) with ordinality as list (step, place)), '[]') where run_id = $1`,
  ...erasersOfProjections(),
  // The title comes from the first completed turn, which takes a reading of the whole thread to find; the client's own data
  // goes with the thread.
  threads: `update threads t set title = null from runs r where r.id = $1 and t.id = r.thread_id and t.title is not null
    and (r.thread_place = 1 or r.id = (${firstCompletedTurn('t.id', 'b.id')}))`,
  sessions: `update sessions set context = '{}' where id = (select thread_id from runs where id = $1)`,
  // What was learnt from the run goes, too; first the words of its text index.
  memory_terms: `delete from memory_terms t using memory_entries e where e.run_id = $1 and t.entry_id = e.id`,
  memory_entries: 'delete from memory_entries where run_id = $1',
  memory_archive: 'delete from memory_archive where run_id = $1',
  // An extraction under way will find that there is nothing left to learn.
  memory_extractions: 'delete from memory_extractions where run_id = $1',
  // Briefs and outcomes of children: all tasks of a workflow, and all delegations of a run. The name is part of the plan, by
  // which other subtasks, the planner and people know the task: it goes with the plan.
  tasks: `${held('tasks', TASKS_OF_RUN)} update tasks t set description = '', input = null, requirements = '{}', assignment_reason = null,
    name = case when workflow_id = $1 or parent_run_id = $1 then '' else name end,
    error = case when error is not null then jsonb_build_object('code', error->'code', 'message', '') end
    from held where t.id = held.id`,
  workflows: `update workflows set name = '', input = '{}', success_criteria = null, gaps = '[]', draft = null where id = $1`,
  handoffs: `${held('handoffs', HANDOFFS_OF_RUN)} update handoffs h set reason = '', expected_action = null, context = '{}', summary = '{}',
    rejection = case when rejection is not null then jsonb_build_object('code', rejection->'code', 'message', '') end
    from held where h.id = held.id`,
  memory_accesses: 'delete from memory_accesses where run_id = $1',
  // The id that its sender gave a request; its digest stays: the same request is still known.
  objectives: ERASE_OBJECTIVES,
  signals: 'delete from signals where run_id = $1',
  waits: 'update waits set name = null, token_key_id = null, token_sealed = null where run_id = $1',
  // Addresses of a task's clients; webhooks for all runs are set up by tenants.
  webhooks: 'delete from webhooks where run_id = $1',
  webhook_deliveries: 'update webhook_deliveries set error = null where run_id = $1 and error is not null',
  // With their contents, unless other runs have the same.
  files: 'select erase_files_of_run($1)',
  // The digest stays: another request with the key is still refused.
  idempotency_keys: `update idempotency_keys set response = case when ${OF_RUN} then (
      select jsonb_object_agg(name, value) from jsonb_each(response) as e (name, value)
        where name in ('id', 'run_id', 'new_run_id', 'turn_id', 'thread_id', 'retried_from',
          'forked_from_run_id', 'status', 'effects'))
      -- A task or a handoff, with nothing in it.
      else (select jsonb_object_agg(name, coalesce(('${JSON.stringify(BLANK)}'::jsonb)->name, value)) from jsonb_each(response) as e (name, value)) end
    where ${SHOWS_OF_RUN}`,
  // Last: the events define what the rows contained.
  run_log: 'select erase_run_events($1, $2::jsonb)',
};

/**
 * Columns with texts that these erasers leave, with the reason: nothing in them was said in a run. A test fails for a column
 * neither erased nor named here.
 */
export const KEPT_COLUMNS: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  'kinds, states and codes of this build': {
    approvals: ['kind', 'status', 'decision', 'subject_type'],
    handoffs: ['carried_by', 'status', 'urgency', 'schema_version'],
    idempotency_keys: ['route'],
    plans: ['max_risk_level', 'status'],
    policy_decisions: ['decision', 'stage'],
    run_log: ['type', 'actor'],
    runs: ['stop_reason', 'structured'],
    tasks: ['status'],
    turns: ['stop_reason', 'structured'],
    waits: ['type'],
    webhook_deliveries: ['type', 'status'],
  },
  'names and settings of what a tenant has set up': {
    approvals: ['tool', 'policy'],
    checkpoints: ['node', 'channel_versions'],
    runs: ['agent_version', 'pinned'],
    tool_calls: ['tool_version'],
    workflows: ['settings'],
  },
  'ids, and positions in logs': {
    idempotency_keys: ['key', 'shown_id'],
    runs: ['lineage_base', 'traceparent'],
    tool_calls: ['tool_use_id', 'idempotency_key', 'traceparent'],
  },
  digests: {
    approvals: ['digest'],
    checkpoints: ['hash'],
    handoffs: ['checksum'],
    idempotency_keys: ['body_digest'],
    messages: ['chain'],
    waits: ['token_hash'],
  },
  'what a run waits for is empty in one that has ended, as an erased one has': { runs: ['waiting_for'] },
  'what clients keep with a thread goes with it (`markThreadErased`)': {
    threads: ['extras', 'metadata', 'external_id'],
    sessions: ['user_id'],
  },
  'what webhooks are told is listed field by field': { webhook_deliveries: ['notice'] },
};

/** Erasers for tables whose projections define what is left of their texts. */
function erasersOfProjections(): Record<string, string> {
  const erasers = PROJECTIONS.flatMap((projection: Projection) => {
    if (!projection.erased) return [];
    const left = Object.entries(projection.erased).map(([column, value]) => `${column} = ${literal(value)}`);
    return [[projection.table, `update ${projection.table} set ${left.join(', ')} where run_id = $1`] as const];
  });
  return Object.fromEntries(erasers);
}

function literal(value: string | object | null): string {
  if (value === null) return 'null';
  return `'${typeof value === 'string' ? value : JSON.stringify(value)}'`;
}

/**
 * Locks stored answers that show a run, its work, or files that came into it, until the transaction ends. Done before locking its
 * thread and row, since reusing an expired key locks in that order, too.
 */
export async function holdAnswers(tx: Tx, runId: string): Promise<void> {
  const showsFile = 'shown_id = any(array(select file_id::text from file_uses where run_id = $1::uuid))';
  await tx.query(`select from idempotency_keys where ${SHOWS_OF_RUN} or ${showsFile} order by route, key for update`, [
    runId,
  ]);
}

/** The same for answers that show files stored for a thread. */
export async function holdAnswersOfThread(tx: Tx, threadId: string): Promise<void> {
  await tx.query(
    `select from idempotency_keys where shown_id = any(array(select id::text from files where thread_id = $1))
       order by route, key for update`,
    [threadId],
  );
}

const PAGE = 500;

/** Erases all rows of a run that is marked as erased; `erase` makes the payload that is left of an event. */
export async function eraseRows(
  tx: Tx,
  runId: string,
  erase: (event: StoredEvent) => { payload: unknown; schema_version: number },
): Promise<void> {
  await forgetLearnt(tx, runId);
  for (const [table, statement] of Object.entries(ERASERS)) {
    if (table !== 'run_log') await tx.query(statement, [runId]);
  }
  await forgetAskedSkills(tx);
  const eraseEvents = ERASERS['run_log'] ?? '';
  for (let after = 0; ;) {
    const events = await readEvents(tx, { runId, after, limit: PAGE });
    const list = events.map((event) => ({ seq: event.seq, ...erase(event) }));
    await tx.query(eraseEvents, [runId, JSON.stringify(list)]);
    after = events.at(-1)?.seq ?? after;
    if (events.length < PAGE) return;
  }
}

/**
 * Forgets what was learnt from a run, including later versions, what was made from it, and copies given to other runs. What it
 * corrected, which was said elsewhere, holds again. Waits for a current extraction, whose result goes, too.
 */
async function forgetLearnt(tx: Tx, runId: string): Promise<void> {
  // All in one order, so that two erasures never deadlock.
  const agents = await tx.query<{ agent_id: string }>(
    `select agent_id from memory_extractions where run_id = $1 union select agent_id from memory_entries where run_id = $1
       union select agent_id from memory_archive where run_id = $1 order by agent_id`,
    [runId],
  );
  for (const { agent_id: agentId } of agents) await lockToForget(tx, agentId);
  const learnt = await tx.query<MemoriesOfAgent>(
    `select agent_id, array_agg(id) as ids from (
        select agent_id, id from memory_entries where run_id = $1 union select agent_id, id from memory_archive where run_id = $1) m
      group by agent_id`,
    [runId],
  );
  const earlier = await listEarlierVersions(tx, runId);
  await reinstateMemories(tx, earlier);
  await forgetAll(tx, learnt, earlier);
}

/** Versions of facts from before the run's own: ids of versions are in the order of their times. */
async function listEarlierVersions(tx: Tx, runId: string): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select e.id from (select root_id, min(id::text)::uuid as first from (
          select root_id, id from memory_entries where run_id = $1 union all select root_id, id from memory_archive where run_id = $1) m
        group by root_id) own
       join memory_entries e on e.root_id = own.root_id and e.id < own.first`,
    [runId],
  );
  return rows.map(({ id }) => id);
}

/** Forgets, in the same way, entries that clients assigned to a thread. */
async function forgetMemoriesOfThread(tx: Tx, threadId: string): Promise<void> {
  const said = await tx.query<MemoriesOfAgent>(
    `select m.agent_id, array_agg(m.id) as ids from (
        select agent_id, id from memory_entries where thread_id = $1::text
        union select agent_id, id from memory_archive where thread_id = $1::text) m
       join agents a on a.id = m.agent_id join threads t on t.id = $1::text::uuid and t.workspace_id = a.workspace_id
      group by m.agent_id`,
    [threadId],
  );
  await forgetAll(tx, said);
}

interface MemoriesOfAgent {
  agent_id: string;
  ids: string[];
}

/** What was merged into them, which other runs or clients had said, is remembered by itself again. */
async function forgetAll(tx: Tx, memories: readonly MemoriesOfAgent[], kept: readonly string[] = []): Promise<void> {
  for (const { agent_id: agentId, ids } of memories.toSorted((a, b) => (a.agent_id < b.agent_id ? -1 : 1))) {
    await lockToForget(tx, agentId);
    const targets = await findForgetTargets(tx, { agentId, ids, kept, sparesMerged: true });
    const gone = [...targets.entries, ...targets.summaries, ...targets.archive];
    await forgetInRuns(tx, gone);
    await removeMemories(tx, { agentId, targets });
    await restoreMerged(tx, { agentId, gone });
  }
}

/**
 * Runs that build on messages of these: forks, later runs of their threads, and workflows that took over their results. Each
 * precedes those that build on it. Of the runs of `goingThread` the later ones are not asked for: all of them go, last first.
 */
export async function findDependents(tx: Tx, runIds: readonly string[], goingThread?: string): Promise<string[]> {
  const found = await tx.query<{ id: string }>(
    `select x.id, x.created_at from runs s join runs x on x.forked_from_run_id = s.id
       where s.id = any($1::uuid[]) and x.id <> all($1::uuid[]) and x.erased_at is null
     union
     select x.id, x.created_at from runs s join runs x on x.thread_id = s.thread_id
       where s.id = any($1::uuid[]) and s.thread_id is distinct from $2::uuid and x.id <> all($1::uuid[]) and x.erased_at is null
         and (x.lineage = s.lineage and x.base_length > s.base_length
           or exists (select from jsonb_to_recordset(x.lineage_base) as b (lineage uuid, length integer)
             where b.lineage = s.lineage and b.length > s.base_length))
     union
     select x.id, x.created_at from runs s join tasks t on t.run_id = s.id and t.status = 'completed' join runs x on x.id = t.workflow_id
       where s.id = any($1::uuid[]) and x.id <> all($1::uuid[]) and x.id <> s.parent_run_id and x.erased_at is null
     order by created_at, id`,
    [runIds, goingThread ?? null],
  );
  const ids = found.map(({ id }) => id);
  return ids.length === 0 ? [] : [...ids, ...(await findDependents(tx, [...runIds, ...ids], goingThread))];
}

/** A thread's runs that are not erased, newest first. */
export async function listUnerasedRuns(tx: Tx, threadId: string): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    'select id from runs where thread_id = $1 and erased_at is null order by thread_place desc',
    [threadId],
  );
  return rows.map(({ id }) => id);
}

/** Marks a thread as erased, without title, extras and users: from now on no run starts on it. */
export async function markThreadErased(tx: Tx, threadId: string): Promise<void> {
  await tx.query(
    `update threads set erased_at = coalesce(erased_at, now()), title = null, extras = '{}', metadata = '{}', external_id = null where id = $1`,
    [threadId],
  );
  await tx.query(`update sessions set user_id = '' where id = $1`, [threadId]);
  // Files stored for the thread itself; those of its runs go with them.
  await eraseFilesOfThread(tx, threadId);
  await forgetMemoriesOfThread(tx, threadId);
}

/** Dates a marked thread anew, whose last run has been erased. */
export async function dateErasedThread(tx: Tx, threadId: string): Promise<void> {
  await tx.query('update threads set erased_at = clock_timestamp() where id = $1', [threadId]);
}
