-- The part of commit_runs that applies the changes of plans.
create or replace function apply_plans(tenant uuid, run uuid, list jsonb) returns void language plpgsql as $$
declare x jsonb;
begin
  for x in select jsonb_array_elements(list) loop
    if x ? 'insert' then
      insert into plans (id, tenant_id, run_id, turn_id, step, purpose, max_risk_level, auto_executing, status, steps, approval_id,
          reason, created_at, approved_at, started_at, completed_at)
        select id, tenant_id, run_id, turn_id, step, purpose, max_risk_level, auto_executing, status, steps, approval_id,
          reason, created_at, approved_at, started_at, completed_at
        from jsonb_populate_record(null::plans, x->'insert');
    end if;
    if x ? 'set' then
      update plans set
          status = coalesce(x->'set'->>'status', status),
          reason = coalesce(x->'set'->>'reason', reason),
          approval_id = coalesce((x->'set'->>'approval_id')::uuid, approval_id),
          approved_at = coalesce((x->'set'->>'approved_at')::timestamptz, approved_at),
          started_at = coalesce((x->'set'->>'started_at')::timestamptz, started_at),
          completed_at = coalesce((x->'set'->>'completed_at')::timestamptz, completed_at)
        where id = (x->>'key')::uuid;
    end if;
  end loop;
end $$;
