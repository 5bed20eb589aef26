/**
 * Partitions of months after those of days, which stay: fewer tables to lock and to plan over, made a year ahead. Attaching one
 * takes the default partition for itself, for a moment and with a limit, so that nobody queues long behind a dump.
 */
import type { Migration } from './migration.ts';

export const months: Migration = {
  name: '0034-months',
  up: async (knex) => {
    await knex.raw(`
      -- Where the partitions of a table begin and before which day they end, the default one aside.
      create function partition_bounds(parent text) returns table (first_day date, end_day date)
      language sql stable as $$
        select uuid_day(bounds[1]::uuid), uuid_day(bounds[2]::uuid) from pg_inherits i join pg_class c on c.oid = i.inhrelid,
          regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \\(''([0-9a-f-]+)''\\) TO \\(''([0-9a-f-]+)''\\)') bounds
        where i.inhparent = parent::regclass and bounds is not null
      $$;

      -- A day of each month from yesterday on that no partition covers, and of each month of the past year from which rows
      -- have come that had none; what is made for a day may leave another one of its month.
      create function missing_partitions(days_ahead integer) returns table (parent text, day date)
      language sql security definer set search_path from current as $$
        with bounds as materialized (
          select p as parent, b.* from unnest(array['run_events', 'messages', 'checkpoints']) p, partition_bounds(p) b
        ), days as (
          select p as parent, d::date as day from unnest(array['run_events', 'messages', 'checkpoints']) p,
            generate_series(current_date - 1, current_date + days_ahead, '1 day') d
          union select 'run_events', uuid_day(run_id) from run_events_default
          union select 'messages', uuid_day(lineage) from messages_default
          union select 'checkpoints', uuid_day(run_id) from checkpoints_default
        )
        select d.parent, min(d.day) from days d
          where d.day between current_date - 366 and current_date + days_ahead and not exists (select from bounds b
            where b.parent = d.parent and b.first_day <= d.day and b.end_day > d.day)
          group by d.parent, date_trunc('month', d.day) order by 2, 1
      $$;

      -- Makes the partition of a table's month around a day, as far as its neighbours leave room, with the rows of that time
      -- that the default one has; answers whether it was missing. Gives up (55P03) if somebody, a dump for one, uses the
      -- default partition for a second: those who come after would wait as long.
      create function attach_partition(parent text, day date) returns boolean
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
        execute format('with moved as (delete from %I where %I >= %L and %I < %L returning *) insert into %I select * from moved',
          parent || '_default', key, uuid_floor(first), key, uuid_floor(last), part);
        -- Of the parent it takes SHARE UPDATE EXCLUSIVE, beside which others read and write.
        execute format('alter table %I attach partition %I for values from (%L) to (%L)',
          parent, part, uuid_floor(first), uuid_floor(last));
        return true;
      end $$;

      -- All that are missing, at once: for processes of 0.1.0, and for whoever has the tables to himself.
      create or replace function ensure_partitions(days_ahead integer) returns integer
      language plpgsql security definer set search_path from current as $$
      declare
        made integer := 0;
        missing record;
      begin
        while exists (select from missing_partitions(days_ahead)) loop
          for missing in select * from missing_partitions(days_ahead) loop
            made := made + attach_partition(missing.parent, missing.day)::int;
          end loop;
        end loop;
        return made;
      end $$;
      drop function ensure_partition(text, text, date);

      revoke execute on function missing_partitions(integer), attach_partition(text, date) from public;
      grant execute on function missing_partitions(integer), attach_partition(text, date) to drover_maintenance;

      -- Where a dump is under way maintenance makes them after it.
      do $$ begin
        perform ensure_partitions(366);
      exception when lock_not_available then null; end $$;
    `);
  },
};
