-- The part of commit_runs that sets aside and settles. What an earlier claim of the run left open was paid for or not:
-- nobody knows, so it counts as estimated, until the driver that has lost the run says what it was (`fence`).
create or replace function apply_reservations(tenant uuid, run uuid, held integer, list jsonb) returns void language plpgsql as $$
declare
  x jsonb;
begin
  for x in select jsonb_array_elements(list) loop
    if x ? 'settle' then
      update reservations set state = x->>'settle', settled_at = now(),
          tokens = coalesce((x->>'tokens')::bigint, tokens),
          cost_usd = case when x ? 'tokens' then (x->>'cost_usd')::numeric else cost_usd end
        where run_id = run and step = (x->>'step')::int and fence = coalesce((x->>'fence')::int, held) and state in ('open', 'estimated') and not rolled_up;
    else
      update reservations set state = 'estimated', settled_at = now() where run_id = run and fence < held and state = 'open';
      insert into reservations (run_id, step, fence, tenant_id, workspace_id, agent_id, root_run_id, chain, state, tokens, cost_usd, created_at)
        values (run, (x->>'step')::int, held, tenant, (x->>'workspace_id')::uuid, (x->>'agent_id')::uuid,
          (x->>'root_run_id')::uuid,
          case when x ? 'chain' then array(select jsonb_array_elements_text(x->'chain')::uuid) end, 'open', (x->>'tokens')::bigint, (x->>'cost_usd')::numeric, clock_timestamp());
    end if;
  end loop;
end $$;
