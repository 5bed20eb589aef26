-- What is only inserted is changed by these functions alone, and only for a run of the current tenant that says it is
-- erased. They run as the owner of the tables, which row level security may not bind: each asks for the tenant itself.
create or replace function erase_run_events(run uuid, list jsonb) returns void
language sql security definer set search_path from current as $$
  update run_events e set payload = x->'payload', schema_version = (x->>'schema_version')::int
    from jsonb_array_elements(list) x, runs r
    where r.id = run and r.erased_at is not null and r.tenant_id = nullif(current_setting('drover.tenant_id', true), '')::uuid
      and e.run_id = run and e.tenant_id = r.tenant_id and e.seq = (x->>'seq')::bigint
$$;

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
