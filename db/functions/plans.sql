create or replace function apply_plans(list jsonb) returns void language plpgsql as $$
declare x jsonb;
begin
  for x in select jsonb_array_elements(list) loop
    if x ? 'steps' then
      insert into plans select * from jsonb_populate_record(null::plans, x);
    else
      update plans set status = x->>'status', reason = coalesce(x->>'reason', reason),
          approval_id = coalesce((x->>'approval_id')::uuid, approval_id),
          approved_at = coalesce((x->>'approved_at')::timestamptz, approved_at),
          started_at = coalesce((x->>'started_at')::timestamptz, started_at),
          completed_at = coalesce((x->>'completed_at')::timestamptz, completed_at)
        where id = (x->>'id')::uuid;
    end if;
  end loop;
end $$;
