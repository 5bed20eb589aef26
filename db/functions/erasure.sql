-- What is only inserted is changed by these functions alone, and only for a run of the current tenant that says it is
-- erased. They run as the owner of the tables, which row level security may not bind: each asks for the tenant itself.
create or replace function erase_run_events(run uuid, list jsonb) returns void
language plpgsql security definer set search_path from current as $$
declare
  erased jsonb := (select jsonb_object_agg(x->>'seq', x) from jsonb_array_elements(list) x);
  first bigint := (select min((x->>'seq')::bigint) from jsonb_array_elements(list) x);
  last bigint := (select max((x->>'seq')::bigint) from jsonb_array_elements(list) x);
  until bigint := (select min(l.seq) from run_log l where l.run_id = run and l.seq >= last);
begin
  -- What a row becomes is worked out from the row that is locked, so that nothing is lost that somebody else has just forgotten there.
  update run_log l set
      schema_version = case when l.events is null then coalesce((erased->l.seq::text->>'schema_version')::int, l.schema_version) end,
      payload = case when l.payload is null then null when l.events is null then coalesce(erased->l.seq::text->'payload', l.payload) else (
        select jsonb_agg(coalesce(erased->(l.seq - l.event_count + n)::text->'payload', e) order by n)
          from jsonb_array_elements(l.payload) with ordinality as of_row(e, n)) end,
      events = (
        select string_agg(case when e is null then line else line_with_payload(line, e->'payload', e->>'schema_version') end, e'\n' order by n)
          from unnest(string_to_array(l.events, e'\n')) with ordinality as of_row(line, n),
            lateral (select erased->(l.seq - l.event_count + n)::text as e) as x)
    from runs r
    where r.id = run and r.erased_at is not null and r.tenant_id = nullif(current_setting('drover.tenant_id', true), '')::uuid
      and l.run_id = run and l.tenant_id = r.tenant_id and l.seq >= first and l.seq <= coalesce(until, last);
end $$;

create or replace function erase_messages(run uuid) returns void
language sql security definer set search_path from current as $$
  update messages m set content = '[]' from runs r
    where r.id = run and r.erased_at is not null and r.tenant_id = nullif(current_setting('drover.tenant_id', true), '')::uuid
      and m.lineage = r.lineage and m.run_id = run and m.tenant_id = r.tenant_id
$$;

create or replace function erase_checkpoints(run uuid) returns void
language sql security definer set search_path from current as $$
  update checkpoints k set state = '{}', pending_sends = '[]' from runs r
    where r.id = run and r.erased_at is not null and r.tenant_id = nullif(current_setting('drover.tenant_id', true), '')::uuid
      and k.run_id = run and k.tenant_id = r.tenant_id
$$;

revoke execute on function erase_run_events(uuid, jsonb), erase_messages(uuid), erase_checkpoints(uuid) from public;
grant execute on function erase_run_events(uuid, jsonb), erase_messages(uuid), erase_checkpoints(uuid) to drover_app;
