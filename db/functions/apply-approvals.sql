-- What is asked about a plan: every step that waits, with its exact arguments.
create or replace function steps_of(calls jsonb) returns jsonb language sql stable as $$
  select jsonb_build_object('steps', jsonb_agg(jsonb_build_object('tool_call_id', k.id, 'tool', k.name, 'arguments',
      k.arguments) order by k.place))
    from tool_calls k where k.id in (select jsonb_array_elements_text(calls)::uuid) having count(*) > 0
$$;

-- A part of commit_runs. What is asked about a call has the arguments of its row in the ledger.
create or replace function apply_approvals(tenant uuid, run uuid, list jsonb) returns void language plpgsql as $$
declare
  x jsonb;
  n jsonb;
  s jsonb;
begin
  for x in select jsonb_array_elements(list) loop
    n := x->'insert';
    s := x->'set';
    if n is not null then
      insert into approvals (id, tenant_id, run_id, turn_id, kind, tool_call_id, plan_id, tool, arguments, digest, message,
          policy, four_eyes, status, expires_at, created_at)
        select (n->>'id')::uuid, tenant, run, (n->>'turn_id')::uuid, n->>'kind', k.id, (n->>'plan_id')::uuid, n->>'tool',
          coalesce(k.arguments, n->'arguments', steps_of(n->'calls')), n->>'digest', n->>'message', n->'policy',
          (n->>'four_eyes')::boolean, n->>'status', now() + (n->>'expires_in_seconds')::numeric * interval '1 second',
          coalesce((n->>'created_at')::timestamptz, now())
        from (select) asked left join tool_calls k on k.id = (n->>'tool_call_id')::uuid;
    end if;
    if s is not null then
      update approvals set
          status = coalesce(s->>'status', status),
          digest = coalesce(s->>'digest', digest),
          reason = coalesce(s->>'reason', reason),
          decision = coalesce(s->>'decision', decision),
          policy = case when s ? 'policy' then nullif(s->'policy', 'null') else policy end,
          decided_by = coalesce((s->>'decided_by')::uuid, decided_by),
          decided_at = coalesce((s->>'decided_at')::timestamptz, decided_at)
        where id = (x->>'key')::uuid and status = coalesce(x->>'from', status);
    end if;
  end loop;
end $$;
