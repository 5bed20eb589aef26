/**
 * The events of a commit are one row of the log, where each event was one: a row has ids, a header and an entry of its index
 * whatever it says. They are lines of a text (`db/functions/event-lines.sql`), which is a quarter shorter than jsonb, and is not
 * taken to pieces when it is written; long payloads stay jsonb. Rows from before stay as they are; `run_events`, which was the table, shows each event as it did.
 */
import { readFile } from 'node:fs/promises';
import type { Knex } from 'knex';
import { takeInserts } from './0172-inserts-of-waiting-commits.ts';
import type { Migration } from './migration.ts';

/** The functions that write the log, or read it by its index. */
export const WRITERS = ['commit-run', 'change-runs', 'claim-run', 'events-page', 'erasure', 'forget-memories'];

/** The events of the log one by one. What a query does not ask for of a payload is not read from its line, and what it asks for several times is read once. */
export const EVENTS_VIEW = `create or replace view run_events with (security_invoker = true) as
  select l.tenant_id, l.workspace_id, l.run_id, l.seq - coalesce(l.event_count, 1) + e.n as seq,
    case left(coalesce(split_part(e.line, ' ', 5), ''), 1) when '' then l.turn_id when '{' then l.turn_id when '-' then null
      else split_part(e.line, ' ', 5)::uuid end as turn_id,
    coalesce(l.step, nullif(split_part(e.line, ' ', 3), '-')::integer) as step, coalesce(l.type, split_part(e.line, ' ', 1)) as type,
    coalesce(l.schema_version, split_part(e.line, ' ', 2)::integer) as schema_version,
    coalesce(l.actor, split_part(e.line, ' ', 4)) as actor, p.payload, l.occurred_at, l.seq as commit_seq
  from run_log l cross join lateral unnest(coalesce(string_to_array(l.events, e'\\n'), array[null]::text[])) with ordinality e (line, n)
    cross join lateral (select case when l.payload is null then payload_of_line(e.line) when l.events is null then l.payload
      else l.payload->(e.n - 1)::integer end as payload offset 0) p;`;

export const logOfCommits: Migration = {
  name: '0171-log-of-commits',
  up: async (knex) => {
    await loadFunctions(knex, ['event-lines']);
    await knex.raw(`
      alter table run_events rename to run_log;
      alter index run_events_pkey rename to run_log_pkey;
      alter table run_log
        alter column type drop not null, alter column schema_version drop not null, alter column actor drop not null,
        alter column payload drop not null, add column event_count integer, add column events text;
      comment on column run_log.seq is 'of the last event of the commit';
      comment on column run_log.events is 'a line for each event of the commit; null in rows of before, which are one event each';
      comment on column run_log.payload is 'of rows of before; with events: those whose payloads are long have them here, as an array';
      comment on column run_log.turn_id is 'of the events whose lines name no other';
      -- A row of several events is still short; compressed, it is read as slowly as it is written.
      do $$ declare part record; begin
        for part in select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'run_log'::regclass loop
          execute format('alter table %I set (toast_tuple_target = 4096)', part.name);
          execute format('alter table %I rename to %I', part.name, regexp_replace(part.name, '^run_events', 'run_log'));
        end loop;
      end $$;

      -- What commit_runs keeps of the row of a run.
      create type committed_row as (last_seq bigint, fence integer, status text, workspace_id uuid, lineage uuid);

      ${EVENTS_VIEW}
      comment on view run_events is 'commit_seq: of the last event of the same commit, by which the log is indexed';
      grant select on run_events to drover_app;

      create or replace view llm_calls with (security_invoker = true) as
        select e.tenant_id, e.run_id, e.seq, e.turn_id, e.step, e.payload->>'provider' as provider, e.payload->>'model' as model,
          r.lineage, (e.payload->>'ordinal')::int as length, e.payload->>'stop_reason' as stop_reason, spent.tokens_in,
          spent.tokens_out, e.payload->'usage' as usage, coalesce((e.payload->>'recorded')::boolean, false) as recorded,
          (e.payload->>'cost_usd')::numeric as cost_usd, (e.payload->>'latency_ms')::int as latency_ms,
          e.occurred_at as created_at
        from run_events e join runs r on r.id = e.run_id,
          lateral (select case when e.payload->'recorded' = 'true' then '{}' else e.payload->'usage' end as used) u,
          lateral (select coalesce((used->>'input')::bigint, 0) + coalesce((used->>'cache_read')::bigint, 0)
              + coalesce((used->>'cache_write_5m')::bigint, 0) + coalesce((used->>'cache_write_1h')::bigint, 0) as tokens_in,
            coalesce((used->>'output')::bigint, 0) as tokens_out) spent
        where e.type = 'model.responded' and e.payload->'tool' is null;

      create or replace function missing_partitions(days_ahead integer) returns table (parent text, day date)
      language sql security definer set search_path from current as $$
        with bounds as materialized (
          select p as parent, b.* from unnest(array['run_log', 'messages', 'checkpoints']) p, partition_bounds(p) b
        ), days as (
          select p as parent, d::date as day from unnest(array['run_log', 'messages', 'checkpoints']) p,
            generate_series(current_date - 1, current_date + days_ahead, '1 day') d
          union select 'run_log', uuid_day(run_id) from run_log_default
          union select 'messages', uuid_day(lineage) from messages_default
          union select 'checkpoints', uuid_day(run_id) from checkpoints_default
        )
        select d.parent, min(d.day) from days d
          where d.day between current_date - 366 and current_date + days_ahead and not exists (select from bounds b
            where b.parent = d.parent and b.first_day <= d.day and b.end_day > d.day)
          group by d.parent, date_trunc('month', d.day) order by 2, 1
      $$;

      create or replace function attach_partition(parent text, day date) returns boolean
      language plpgsql security definer set search_path from current set lock_timeout = '1s' as $$
      declare
        key text := case parent when 'messages' then 'lineage' else 'run_id' end;
        first date := date_trunc('month', day);
        last date := date_trunc('month', day) + interval '1 month';
        part text;
      begin
        perform pg_advisory_xact_lock(hashtext('drover:partitions'));
        perform from partition_bounds(parent) b where b.first_day <= day and b.end_day > day;
        if found then return false; end if;
        select greatest(max(b.end_day), first) into first from partition_bounds(parent) b where b.end_day <= day;
        select least(min(b.first_day), last) into last from partition_bounds(parent) b where b.first_day > day;
        part := parent || '_from_' || to_char(first, 'YYYYMMDD');
        execute format('lock table %I in access exclusive mode', parent || '_default');
        execute format('create table %I (like %I including all)', part, parent);
        if parent = 'run_log' then execute format('alter table %I set (toast_tuple_target = 4096)', part); end if;
        execute format('with moved as (delete from %I where %I >= %L and %I < %L returning *) insert into %I select * from moved',
          parent || '_default', key, uuid_floor(first), key, uuid_floor(last), part);
        -- Of the parent it takes SHARE UPDATE EXCLUSIVE, beside which others read and write.
        execute format('alter table %I attach partition %I for values from (%L) to (%L)',
          parent, part, uuid_floor(first), uuid_floor(last));
        return true;
      end $$;

      create or replace function rows_in_default_partitions() returns bigint
      language sql security definer set search_path from current as $$
        select (select count(*) from run_log_default) + (select count(*) from messages_default)
          + (select count(*) from checkpoints_default)
      $$;
    `);
    await takeInserts(knex);
    // In the transaction that makes a view of the table: no commit begins with a function that writes there.
    await loadFunctions(knex, WRITERS);
  },
};

/** For a transaction that changes what functions write to or read. */
export async function loadFunctions(knex: Knex, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const text = await readFile(new URL(`../functions/${name}.sql`, import.meta.url), 'utf8');
    await knex.raw(text.replaceAll('?', String.raw`\?`));
  }
}
