-- Takes up to so many calls out of what a minute permits; answers how many it has taken. Whoever takes at the same time waits
-- for the row: together they never take more. A second that is partly within the last minute counts whole.
create or replace function take_calls(counted text, wanted integer, most integer) returns integer language plpgsql as $$
declare
  kept_seconds bigint[];
  kept_counts integer[];
  taken bigint;
  granted integer;
  this_second bigint;
  d text;
begin
  -- What a crash of the database forgets here is a minute.
  d := set_config('synchronous_commit', 'off', true);
  insert into rate_counts as r (name, used, until, seconds, counts) values (counted, 0, clock_timestamp(), '{}', '{}')
    on conflict (name) do update set used = r.used returning r.seconds, r.counts into kept_seconds, kept_counts;
  this_second := floor(extract(epoch from clock_timestamp()));
  select coalesce(array_agg(s.at order by s.at), '{}'), coalesce(array_agg(s.calls order by s.at), '{}'), coalesce(sum(s.calls), 0)
    into kept_seconds, kept_counts, taken
    from unnest(kept_seconds, kept_counts) as s (at, calls) where s.at >= this_second - 60;
  granted := greatest(0, least(wanted, most - taken));
  if granted > 0 and kept_seconds[cardinality(kept_seconds)] = this_second then
    kept_counts[cardinality(kept_counts)] := kept_counts[cardinality(kept_counts)] + granted;
  elsif granted > 0 then
    kept_seconds := kept_seconds || this_second;
    kept_counts := kept_counts || granted;
  end if;
  update rate_counts r set used = taken + granted, until = clock_timestamp() + interval '61 seconds', seconds = kept_seconds, counts = kept_counts
    where r.name = counted;
  return granted;
end $$;
