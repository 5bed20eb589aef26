/** Forgets memories permanently: rows, versions, entries made from them, and archived copies. */
import type { Database, Tx } from './database.ts';
import { forgetConflicts, undisputeMemories } from './memory-conflicts.ts';
import { LIVE } from './memory-entries.ts';
import { restoreMemories } from './memory-archive.ts';

/** Numbers of what was removed. */
export interface Forgotten {
  entries: number;
  summaries: number;
  archive: number;
  events: number;
}

/** What to forget: versions of the same facts, and entries made from them. */
interface ForgetTargets {
  entries: string[];
  summaries: string[];
  archive: string[];
}

/** Ids of facts whose `metadata.subject` is exactly this. */
export async function findBySubject(tx: Tx, of: { agentId: string; subject: string }): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select id from memory_entries where agent_id = $1 and metadata->>'subject' = $2
     union select id from memory_archive where agent_id = $1 and entry->'metadata'->>'subject' = $2`,
    [of.agentId, of.subject],
  );
  return rows.map(({ id }) => id);
}

/**
 * Everything to be removed along with these: other versions, archived ones, facts that lost against theirs, and summaries with
 * their corrections, transitively; also archived entries that they were made from or, unless `sparesMerged`, have absorbed. `kept`
 * are left out, and so is what only they lead to.
 */
export async function findForgetTargets(
  tx: Tx,
  of: { agentId: string; ids: readonly string[]; kept?: readonly string[]; sparesMerged?: boolean },
): Promise<ForgetTargets> {
  const rows = await tx.query<{ id: string; kind: keyof ForgetTargets }>(
    `with recursive every as materialized (
        select id, root_id, coalesce(made_from, '{}') as made_from, superseded_by, false as archived from memory_entries where agent_id = $1
          and id <> all($3::uuid[]) and root_id in (select root_id from memory_entries where id = any($2::uuid[])
            union select root_id from memory_archive where id = any($2::uuid[])
            union select root_id from memory_entries where agent_id = $1 and made_from is not null
            -- Facts that a person has decided against: another one has superseded them.
            union select lost.root_id from memory_entries lost where agent_id = $1 and superseded_by is not null
              and not exists (select from memory_entries e where e.agent_id = $1 and e.id = lost.superseded_by and e.root_id = lost.root_id))
        union all
        select id, root_id, coalesce((select array_agg(m::uuid) from jsonb_array_elements_text(
            case jsonb_typeof(entry->'made_from') when 'array' then entry->'made_from' else '[]' end) m), '{}'), null, true
          from memory_archive where agent_id = $1
      ), links as materialized (
        select m as source, e.id as target, 'made' as how from every e cross join unnest(e.made_from) m
        union all
        select e.id, m, 'source' from every e cross join unnest(e.made_from) m
        union all
        -- From each version to the first one of its fact, and back.
        select unnest(array[v.id, v.first]), unnest(array[v.first, v.id]), 'version' from (
          select id, first_value(id) over (partition by root_id order by id) as first from every) v where v.id <> v.first
        union all
        select superseded_by, id, 'lost' from every where superseded_by is not null
        union all
        select (m->>'into')::uuid, (m->>'id')::uuid, 'merged' from memory_consolidations c
          cross join jsonb_array_elements(c.diff->'merged') m where c.agent_id = $1 and c.reverted_at is null and not $4::boolean
      ), gone as (
        select id, archived, false as summary from every where root_id in (select root_id from every where id = any($2::uuid[]))
        union
        select e.id, e.archived, g.summary or l.how = 'made' from gone g join links l on l.source = g.id join every e on e.id = l.target
          where l.how in ('made', 'version', 'lost') or e.archived and (l.how = 'merged' or not g.summary)
      )
     select distinct on (id) id, case when archived then 'archive' when summary then 'summaries' else 'entries' end as kind
       from gone order by id, summary`,
    [of.agentId, of.ids, of.kept ?? [], of.sparesMerged ?? false],
  );
  const ids = (kind: keyof ForgetTargets) => rows.filter((row) => row.kind === kind).map(({ id }) => id);
  return { entries: ids('entries'), summaries: ids('summaries'), archive: ids('archive') };
}

/** Removes them. Other sources of a removed summary are restored. */
export async function removeMemories(
  tx: Tx,
  { agentId, targets }: { agentId: string; targets: ForgetTargets },
): Promise<void> {
  const all = [...targets.entries, ...targets.summaries, ...targets.archive];
  const left = await tx.query<{ id: string }>(
    `select distinct m.id from memory_entries e cross join unnest(e.made_from) as m (id)
      where e.id = any($1::uuid[]) and m.id <> all($2::uuid[])`,
    [targets.summaries, all],
  );
  await undisputeMemories(tx, all);
  await forgetConflicts(tx, all);
  await tx.query('delete from memory_checks where subject_id = any($1::uuid[])', [all]);
  await tx.query('delete from memory_terms where entry_id = any($1::uuid[])', [all]);
  await tx.query('delete from memory_archive where agent_id = $1 and id = any($2::uuid[])', [agentId, all]);
  await tx.query('delete from memory_entries where agent_id = $1 and id = any($2::uuid[])', [agentId, all]);
  await restoreMemories(tx, { agentId, ids: left.map(({ id }) => id) });
}

/** Restores what was merged into entries that are gone: others had said it. */
export async function restoreMerged(tx: Tx, of: { agentId: string; gone: readonly string[] }): Promise<void> {
  const rows = await tx.query<{ id: string }>(
    `select distinct a.id from memory_consolidations c cross join jsonb_array_elements(c.diff->'merged') m
       join memory_archive a on a.id = (m->>'id')::uuid and a.agent_id = c.agent_id and a.reason = 'merged'
      where c.agent_id = $1 and c.reverted_at is null and (m->>'into')::uuid = any($2::uuid[])`,
    [of.agentId, of.gone],
  );
  await restoreMemories(tx, { agentId: of.agentId, ids: rows.map(({ id }) => id) });
}

/**
 * Removes their text from what runs have of them (`clearInRuns`), and schedules repetitions, since what a running call is
 * about to write, or a fork to copy, is not visible yet. Must be called before the memories are removed. Returns the number of
 * changed events.
 */
export async function forgetInRuns(tx: Tx, ids: readonly string[]): Promise<number> {
  const runs = await findRunsGiven(tx, ids);
  if (runs.length > 0)
    await tx.query(
      `with open as (select k.id, k.name, k.arguments->>'content' as content from tool_calls k
          where k.run_id = any($1::uuid[]) and k.name in ('recall', 'remember', 'read_tool_output') and k.tool_id is not null
            and (k.status in ('running', 'unknown') or k.status = 'pending' and k.attempt > 0)
       ), said as (select content from memory_entries where id = any($2::uuid[])
          union select entry->>'content' from memory_archive where id = any($2::uuid[]))
       insert into memory_forgettings (id, tenant_id, memories, runs, calls, told)
         select gen_random_uuid(), current_setting('drover.tenant_id')::uuid, $2, $1, coalesce(array_agg(o.id), '{}'),
             coalesce(array_agg(o.id) filter (where o.name = 'remember' and exists (select from said s where s.content = o.content)), '{}')
           from open o`,
      [runs, ids],
    );
  return clearInRuns(tx, { ids, runs });
}

/** Overwrites the stored answer to the request that added one, for repeated requests. */
const NOTHING_OF_ENTRY = { content: '', summary: null, reason: null, thread_id: null, metadata: {} };
const NOTHING_OF_FRAGMENT = {
  content: { type: 'text', data: '' },
  provenance: {},
  conflicts: [],
  retention_policy: null,
};

/**
 * Removes their text from what these runs were given of them, from what they handed over, and from ledger rows of `recall`
 * (including further reading of its output) and `remember` with their approvals. Returns the number of changed events.
 */
export async function clearInRuns(
  tx: Tx,
  { ids, runs, told = [] }: { ids: readonly string[]; runs: readonly string[]; told?: readonly string[] },
): Promise<number> {
  await tx.query(
    // Further reading of a recall may be stored after the recall was emptied.
    `with recalls as (select run_id, id, tool_use_id, output from tool_calls
        where run_id = any($1::uuid[]) and name = 'recall' and tool_id is not null
     ), emptied as (select run_id, id, tool_use_id from recalls
          where output = '{"entries": []}' or exists (select from unnest($2::text[]) id where position(id in output::text) > 0))
     update tool_calls c set output = '{"entries": []}', model_output = null from emptied
      where c.run_id = emptied.run_id and c.output <> '{"entries": []}' and (c.id = emptied.id
        or c.name = 'read_tool_output' and c.tool_id is not null and c.arguments->>'tool_use_id' = emptied.tool_use_id)`,
    [runs, ids],
  );
  await clearRemembered(tx, { ids, runs, told });
  await tx.query(
    `update idempotency_keys set response = response || case when response ? 'fragment_id' then $3::jsonb else $2::jsonb end
      where shown_id = any($1::text[])`,
    [ids, JSON.stringify(NOTHING_OF_ENTRY), JSON.stringify(NOTHING_OF_FRAGMENT)],
  );
  await forgetInHandoffs(tx, { ids, runs });
  const [changed] = await tx.query<{ events: number }>('select forget_in_events($1::uuid[], $2::uuid[]) as events', [
    runs,
    ids,
  ]);
  return changed?.events ?? 0;
}

/** Removes what calls of `remember` have told, and what people were asked and have decided about these calls. */
async function clearRemembered(
  tx: Tx,
  { ids, runs, told }: { ids: readonly string[]; runs: readonly string[]; told: readonly string[] },
): Promise<void> {
  await tx.query(
    `with cleared as (
       update tool_calls set arguments = '{"content": ""}', asked = case when asked is not null then '{"content": ""}'::jsonb end
        where run_id = any($1::uuid[]) and name = 'remember'
          and (output->>'id' = any($2::text[]) or id = any($3::uuid[]) and status not in ('pending', 'running')) returning id)
     update approvals a set original_arguments = case when original_arguments is not null then '{"content": ""}'::jsonb end,
         arguments = case when plan_id is null then '{"content": ""}' else jsonb_build_object('steps', (
           select jsonb_agg(case when c.id is null then s else s || '{"arguments": {"content": ""}}' end order by place)
             from jsonb_array_elements(arguments->'steps') with ordinality steps (s, place) left join cleared c on c.id::text = s->>'tool_call_id')) end
      where run_id = any($1::uuid[]) and exists (select from cleared c where c.id = tool_call_id
        or arguments->'steps' @> jsonb_build_array(jsonb_build_object('tool_call_id', c.id)))`,
    [runs, ids, told],
  );
}

/** Removes fragments from what handoffs of these runs, or of workflows' tasks that had no run yet, give to their targets. */
async function forgetInHandoffs(
  tx: Tx,
  { ids, runs }: { ids: readonly string[]; runs: readonly string[] },
): Promise<void> {
  await tx.query(
    `with given as (select id, (select jsonb_object_agg(name, case when name in ('memory_fragments', 'relevant_memories')
            then (select coalesce(jsonb_agg(x), '[]') from jsonb_array_elements(part) x where x->>'id' <> all($2::text[])) else part end)
          from jsonb_each(summary) e (name, part)) as summary
        from handoffs where source_run_id = any($1::uuid[])
          or source_run_id is null and task_id in (select id from tasks where workflow_id = any($1::uuid[]))
     ), changed as (update handoffs h set summary = g.summary from given g where h.id = g.id and h.summary <> g.summary
        returning h.id::text as id, h.summary)
     update idempotency_keys k set response = k.response || jsonb_build_object('summary', c.summary)
       from changed c where k.shown_id = c.id`,
    [runs, ids],
  );
}

/** A forgetting that will be repeated. */
interface Forgetting {
  id: string;
  tenant_id: string;
}

/** Due ones of all tenants, longest overdue first. */
export async function listDueForgettings(db: Database, limit: number): Promise<Forgetting[]> {
  return db.asMaintenance((tx) =>
    tx.query<Forgetting>(
      'select id, tenant_id from memory_forgettings where due_at <= clock_timestamp() order by due_at limit $1',
      [limit],
    ),
  );
}

/**
 * Repeats a forgetting for its runs and forks made since. It ends after ten minutes, or, while a call of that time is still
 * open, after a day: no commit or attempt that had read before takes longer.
 */
export async function forgetAgain(tx: Tx, id: string): Promise<void> {
  const [row] = await tx.query<{ memories: string[]; runs: string[]; told: string[]; is_last: boolean }>(
    `update memory_forgettings f set due_at = clock_timestamp() + interval '10 minutes' where id = $1
       returning memories::text[], runs::text[], told::text[], created_at < clock_timestamp() - case when exists (select from tool_calls k
           where k.id = any(f.calls) and k.status in ('pending', 'running', 'unknown'))
         then interval '1 day' else interval '10 minutes' end as is_last`,
    [id],
  );
  if (!row) return;
  const { memories, runs, told, is_last: isLast } = row;
  await clearInRuns(tx, { ids: memories, runs: await withForks(tx, runs), told });
  if (isLast) await tx.query('delete from memory_forgettings where id = $1', [id]);
}

/** Whether an earlier attempt of a `remember` call told something that was forgotten since. */
export async function hasToldForgotten(tx: Tx, callId: string): Promise<boolean> {
  const [row] = await tx.query<{ has: boolean }>(
    `select exists (select from memory_forgettings where told <> '{}' and told @> array[$1::uuid]) as has`,
    [callId],
  );
  return row?.has === true;
}

/** Runs that used or created these entries, and their forks, which have their record but make no requests of their own. */
async function findRunsGiven(tx: Tx, ids: readonly string[]): Promise<string[]> {
  const rows = await tx.query<{ run_id: string }>(
    `select run_id from (
        select run_id from memory_accesses where memory_id = any($1::uuid[])
        union select run_id from memory_entries where id = any($1::uuid[])
        union select run_id from memory_archive where id = any($1::uuid[])) used where run_id is not null`,
    [ids],
  );
  return rows.length === 0
    ? []
    : withForks(
        tx,
        rows.map(({ run_id: run }) => run),
      );
}

async function withForks(tx: Tx, runs: readonly string[]): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `with recursive every as (
        select unnest($1::uuid[]) as id
        union select r.id from runs r join every e on r.forked_from_run_id = e.id
      ) select id from every`,
    [runs],
  );
  return rows.map(({ id }) => id);
}

/** The number of events that forgetting would change. */
export async function countInRuns(tx: Tx, ids: readonly string[]): Promise<number> {
  const [row] = await tx.query<{ events: number }>(
    `select count(*)::int as events from run_events e where e.run_id = any($1::uuid[]) and e.type = 'memory.retrieved'
        and exists (select from jsonb_array_elements(e.payload->'entries') x where x->>'id' = any($2::text[]))`,
    [await findRunsGiven(tx, ids), ids],
  );
  return row?.events ?? 0;
}

/** The given memories (entries or fragments) that no longer exist anywhere. */
export async function findForgotten(tx: Tx, ids: readonly string[]): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select id from unnest($1::uuid[]) as given (id) where not exists (select from memory_entries e where e.id = given.id)
        and not exists (select from memory_archive a where a.id = given.id)
        and not exists (select from memory_fragments f where f.id = given.id)`,
    [ids],
  );
  return rows.map(({ id }) => id);
}

/**
 * Condition on live entries `e`: the text index has each word that a query may have. It takes texts as they are written, and
 * words of scripts without spaces may be missing from what an older process wrote. Of 2 MB, half of it not ASCII, to look takes
 * 0.2 s, and to make words anew 1.4 s, while all who change the memory wait.
 */
const IS_INDEXED = `(octet_length(e.content) = length(e.content) or e.content is nfc normalized and split_words(e.content) = e.content)`;

/**
 * Entries of an agent, in any state, whose text contains all of these words, and these literals exactly, however letters are
 * composed. Words such as `the`, which the text search leaves out, count if there is nothing else.
 */
export async function findByText(
  tx: Tx,
  of: { agentId: string; words: string; literals: readonly string[] },
): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `with asked as materialized (select normalize($2::text, nfc) as words, plainto_tsquery('english', normalize($2::text, nfc)) as query,
        array(select lower(normalize(literal, nfc)) from unnest($3::text[]) literal) as literals),
      sought as materialized (select array(select distinct left(lexeme, 100) from asked, unnest(to_tsvector('english', words))) as terms),
      indexed as materialized (select entry_id from memory_terms, sought where owner_id = $1 and term = any(terms)
        group by entry_id, terms having count(*) = cardinality(terms)),
      stored as (select e.id, e.content as text from memory_entries e cross join asked where e.agent_id = $1
          and (e.id in (select entry_id from indexed) or not (numnode(query) > 0 and e.${LIVE} and ${IS_INDEXED}))
        union all select id, entry->>'content' from memory_archive where agent_id = $1),
      -- The look takes a fourth of the time of the change.
      every as (select id, case when text is nfc normalized then text else normalize(text, nfc) end as content from stored)
     select id from every cross join asked
      where not exists (select from unnest(literals) literal where strpos(lower(content), literal) = 0)
        and case when numnode(query) > 0 then to_tsvector('english', split_words(left(content, 200000))) @@ query
          else cardinality(literals) > 0 or to_tsvector('simple', left(content, 200000)) @@ plainto_tsquery('simple', words) end`,
    [of.agentId, of.words, of.literals],
  );
  return rows.map(({ id }) => id);
}
