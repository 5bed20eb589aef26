-- Size of a JSON value as text, about. One that is stored compressed has to be read for it.
create or replace function json_bytes(stored jsonb) returns bigint language sql immutable as $$
  select case when pg_column_compression(stored) is null then pg_column_size(stored) else octet_length(stored::text) end
$$;

-- Where a page of a run's events ends that has at most `limit` of them and `bytes` together, the first one aside: its last
-- position and that of its commit, null if there is none, and whether more follow. `shown`: with what the events refer to; an output larger than
-- that is not read with its event. Values are sized one by one, and none beyond the page.
create or replace function events_page(p jsonb) returns jsonb language plpgsql stable as $$
declare
  room bigint := (p->>'bytes')::bigint;
  left_rows integer := (p->>'limit')::int;
  shown bigint := (p->>'shown')::bigint;
  run uuid := (p->>'run_id')::uuid;
  types text[] := case when p ? 'types' then array(select jsonb_array_elements_text(p->'types')) end;
  line uuid;
  last bigint;
  last_commit bigint;
  stored jsonb;
  size bigint;
  item record;
  d text;
begin
  -- While a partition has no statistics a page looks cheaper with all that follows it sorted than by the index.
  d := set_config('enable_sort', 'off', true);
  for item in select e.seq, e.commit_seq, e.type, e.payload from run_events e where e.run_id = run and e.commit_seq > (p->>'after')::bigint and e.seq > (p->>'after')::bigint
      and (types is null or e.type = any(types)) and (not p ? 'turn_id' or e.turn_id = (p->>'turn_id')::uuid)
      order by e.commit_seq, e.seq limit left_rows + 1 loop
    if left_rows = 0 then return jsonb_build_object('last', last, 'last_commit', last_commit, 'has_more', true); end if;
    left_rows := left_rows - 1;
    room := room - json_bytes(item.payload);
    if shown is not null and item.type in ('model.responded', 'turn.completed') and not item.payload ? 'tool' then
      if line is null then select r.lineage into line from runs r where r.id = run; end if;
      select m.content into stored from messages m where m.lineage = line and m.ordinal = (item.payload->>'ordinal')::int;
      room := room - coalesce(json_bytes(stored), 0);
    elsif shown is not null and item.payload ? 'tool_call_id' then
      select k.arguments, case when k.output_bytes <= shown then k.output_bytes else 0 end into stored, size
        from tool_calls k where k.id = (item.payload->>'tool_call_id')::uuid;
      room := room - coalesce(json_bytes(stored), 0) - coalesce(size, 0);
    elsif shown is not null and item.type = 'client_tools.requested' then
      select sum(json_bytes(k.arguments)) into size from tool_calls k
        where k.id in (select jsonb_array_elements_text(item.payload->'tool_call_ids')::uuid);
      room := room - coalesce(size, 0);
    end if;
    if room < 0 and last is not null then return jsonb_build_object('last', last, 'last_commit', last_commit, 'has_more', true); end if;
    last := item.seq;
    last_commit := item.commit_seq;
  end loop;
  return jsonb_build_object('last', last, 'last_commit', last_commit, 'has_more', false);
end $$;
