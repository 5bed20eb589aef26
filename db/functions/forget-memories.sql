-- Takes the text of memories out of the events that have given them to turns; the rest of the log stays. Runs as the owner of the
-- tables, and asks for the tenant itself.
create or replace function forget_in_events(runs uuid[], ids uuid[]) returns integer
language sql security definer set search_path from current as $$
  with changed as (
    update run_events e set payload = jsonb_set(e.payload, '{entries}', (
        select coalesce(jsonb_agg(case when (x->>'id')::uuid = any(ids) then x || '{"content": ""}' else x end order by place), '[]')
          from jsonb_array_elements(e.payload->'entries') with ordinality as given (x, place)))
      where e.run_id = any(runs) and e.type = 'memory.retrieved'
        and e.tenant_id = nullif(current_setting('drover.tenant_id', true), '')::uuid
        and exists (select from jsonb_array_elements(e.payload->'entries') x where (x->>'id')::uuid = any(ids))
      returning 1)
  select count(*)::int from changed
$$;

revoke execute on function forget_in_events(uuid[], uuid[]) from public;
grant execute on function forget_in_events(uuid[], uuid[]) to drover_app;
