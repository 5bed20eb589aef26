/**
 * Daily partitions by UUIDv7: a day's runs share one. A missing partition never stops a write, the default one takes it;
 * `ensure_partitions` makes them ahead and moves what the default holds into its place in one transaction.
 */
import type { Migration } from './migration.ts';

export const partitions: Migration = {
  name: '0003-partitions',
  up: async (knex) => {
    await knex.raw(`
      create table run_events_default partition of run_events default;
      create table messages_default partition of messages default;
      create table checkpoints_default partition of checkpoints default;

      -- The smallest UUIDv7 of a day (RFC 9562: 48 bits of milliseconds lead).
      create function uuid_floor(day date) returns uuid language sql immutable as $$
        select (lpad(to_hex((extract(epoch from day::timestamp) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
      $$;

      create function uuid_day(id uuid) returns date language sql immutable as $$
        select (timestamp 'epoch' + ('x0000' || left(replace(id::text, '-', ''), 12))::bit(64)::bigint * interval '1 ms')::date
      $$;

      create function ensure_partition(parent text, key text, day date) returns boolean
      language plpgsql security definer set search_path from current as $$
      declare
        part text := parent || '_' || to_char(day, 'YYYYMMDD');
        lower_bound uuid := uuid_floor(day);
        upper_bound uuid := uuid_floor(day + 1);
      begin
        if to_regclass(part) is not null then return false; end if;
        execute format('create table %I (like %I including all)', part, parent);
        execute format('with moved as (delete from %I where %I >= %L and %I < %L returning *) insert into %I select * from moved',
          parent || '_default', key, lower_bound, key, upper_bound, part);
        execute format('alter table %I attach partition %I for values from (%L) to (%L)',
          parent, part, lower_bound, upper_bound);
        return true;
      end $$;

      -- Makes the partitions of today and the days ahead, and of days in the past year that had none when their rows came;
      -- answers how many were missing.
      create function ensure_partitions(days_ahead integer) returns integer
      language plpgsql security definer set search_path from current as $$
      declare
        made integer := 0;
        day date;
      begin
        perform pg_advisory_xact_lock(hashtext('drover:partitions'));
        for day in
          select generate_series(current_date - 1, current_date + days_ahead, '1 day')::date
          union select astray from (
            select uuid_day(run_id) from run_events_default union select uuid_day(lineage) from messages_default
            union select uuid_day(run_id) from checkpoints_default
          ) rows_without_partition (astray) where astray between current_date - 366 and current_date
        loop
          made := made + ensure_partition('run_events', 'run_id', day)::int + ensure_partition('messages', 'lineage', day)::int
            + ensure_partition('checkpoints', 'run_id', day)::int;
        end loop;
        return made;
      end $$;

      -- Rows that found no partition of their own: an alarm, not an error.
      create function rows_in_default_partitions() returns bigint
      language sql security definer set search_path from current as $$
        select (select count(*) from run_events_default) + (select count(*) from messages_default)
          + (select count(*) from checkpoints_default)
      $$;

      select ensure_partitions(3);
    `);
  },
};
