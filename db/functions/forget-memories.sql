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
  update run_log l set payload = case when l.types is null then without_texts(l.payload, ids) else (
      select jsonb_agg(case when l.types[n] = 'memory.retrieved' and e ? 'entries' then without_texts(e, ids) else e end order by n)
        from jsonb_array_elements(l.payload) with ordinality as of_row(e, n)) end
    where l.run_id = any(runs) and l.tenant_id = tenant and 'memory.retrieved' = any(coalesce(l.types, array[l.type]))
      and exists (select from unnest(coalesce(l.types, array[l.type])) with ordinality as of_row(type, n), jsonb_array_elements(case
          when of_row.type <> 'memory.retrieved' then '[]' when l.types is null then l.payload->'entries'
          else l.payload->(n - 1)::int->'entries' end) x where (x->>'id')::uuid = any(ids));
  return changed;
end $$;

revoke execute on function forget_in_events(uuid[], uuid[]) from public;
grant execute on function forget_in_events(uuid[], uuid[]) to drover_app;
