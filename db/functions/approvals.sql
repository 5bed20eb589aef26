-- What is asked about a plan: every step that waits, with its exact arguments.
create or replace function steps_of(calls jsonb) returns jsonb language sql stable as $$
  select jsonb_build_object('steps', jsonb_agg(jsonb_build_object('tool_call_id', k.id, 'tool', k.name, 'arguments',
      k.arguments) order by k.place))
    from tool_calls k where k.id in (select jsonb_array_elements_text(calls)::uuid) having count(*) > 0
$$;

-- A part of commit_run. What is asked about a call has the arguments of its row in the ledger.
create or replace function apply_approvals(tenant uuid, run uuid, list jsonb) returns void language plpgsql as $$
declare x jsonb;
begin
  for x in select jsonb_array_elements(list) loop
    if x->>'status' = 'pending' then
      insert into approvals (id, tenant_id, run_id, turn_id, kind, tool_call_id, plan_id, tool, arguments, digest, message,
          policy, four_eyes, status, expires_at, created_at)
        select (x->>'id')::uuid, tenant, run, (x->>'turn_id')::uuid, x->>'kind', k.id, (x->>'plan_id')::uuid, x->>'tool',
          coalesce(k.arguments, x->'arguments', steps_of(x->'calls')),
          x->>'digest', x->>'message', x->'policy', (x->>'four_eyes')::boolean, 'pending', now() + (x->>'expires_in_seconds')::numeric * interval '1 second', now()
        from (select) asked left join tool_calls k on k.id = (x->>'tool_call_id')::uuid;
    else
      update approvals set status = x->>'status', digest = coalesce(x->>'digest', digest), reason = x->>'reason',
          decision = x->>'decision', policy = case when x ? 'policy' then nullif(x->'policy', 'null') else policy end, decided_by = (x->>'decided_by')::uuid,
          decided_at = now()
        where id = (x->>'id')::uuid and status = 'pending';
    end if;
  end loop;
end $$;
