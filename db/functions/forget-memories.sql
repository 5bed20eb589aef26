-- What an event tells of memories that were given to a turn, without the text of these.
create or replace function without_texts(payload jsonb, ids uuid[]) returns jsonb language sql immutable as $$
  select jsonb_set(payload, '{entries}', (
    select coalesce(jsonb_agg(case when (x->>'id')::uuid = any(ids) then x || '{"content": ""}' else x end order by place), '[]')
      from jsonb_array_elements(payload->'entries') with ordinality as given (x, place)))
$$;

-- Takes the text of memories out of the events that have given them to turns; the rest of the log stays. Answers in how many. Runs as
-- the owner of the tables, and asks for the tenant itself. What a row becomes is worked out from the row that is locked, so that of
-- two who forget at the same moment neither writes back what the other has taken out.
create or replace function forget_in_events(runs uuid[], ids uuid[]) returns integer
language plpgsql security definer set search_path from current as $$
declare
  tenant uuid := nullif(current_setting('drover.tenant_id', true), '')::uuid;
  changed integer;
begin
  select count(*) into changed from run_events e where e.run_id = any(runs) and e.type = 'memory.retrieved' and e.tenant_id = tenant
    and exists (select from jsonb_array_elements(e.payload->'entries') x where (x->>'id')::uuid = any(ids));
  if changed = 0 then return 0; end if;
  update run_log l set
    payload = case when l.payload is null then null when l.events is null then without_texts(l.payload, ids) else (
      select jsonb_agg(case when split_part(line, ' ', 1) = 'memory.retrieved' and e ? 'entries' then without_texts(e, ids) else e end order by n)
        from rows from (jsonb_array_elements(l.payload), unnest(string_to_array(l.events, e'\n'))) with ordinality as of_row(e, line, n)) end,
    events = case when l.payload is not null then l.events else (
      select string_agg(case when split_part(line, ' ', 1) = 'memory.retrieved' and payload_of_line(line) ? 'entries'
          then line_with_payload(line, without_texts(payload_of_line(line), ids), null) else line end, e'\n' order by n)
        from unnest(string_to_array(l.events, e'\n')) with ordinality as of_row(line, n)) end
    from (select distinct e.run_id, e.commit_seq from run_events e, jsonb_array_elements(e.payload->'entries') x
      where e.run_id = any(runs) and e.type = 'memory.retrieved' and e.tenant_id = tenant and (x->>'id')::uuid = any(ids)) told
    -- Named once more, so that no partition is touched but those of these runs.
    where l.run_id = any(runs) and l.run_id = told.run_id and l.seq = told.commit_seq and l.tenant_id = tenant;
  return changed;
end $$;

revoke execute on function forget_in_events(uuid[], uuid[]) from public;
grant execute on function forget_in_events(uuid[], uuid[]) to drover_app;
