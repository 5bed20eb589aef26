-- The part of commit_runs that applies the changes of turns.
create or replace function apply_turns(tenant uuid, run uuid, list jsonb) returns void language plpgsql as $$
declare x jsonb;
begin
  for i in 0 .. jsonb_array_length(list) - 1 loop
    x := list->i;
    if x ? 'insert' then
      insert into turns (id, tenant_id, run_id, number, status, input, output_ordinal, stop_reason, error, checkpoint_id, steps,
          tokens_in, tokens_out, cost_usd, started_seq, created_at, completed_at, agent_id)
        select id, tenant_id, run_id, number, status, input, output_ordinal, stop_reason, error, checkpoint_id, steps,
          tokens_in, tokens_out, cost_usd, started_seq, created_at, completed_at, (select r.agent_id from runs r where r.id = run)
        from jsonb_populate_record(null::turns, x->'insert');
    end if;
    if x ? 'set' then
      update turns set
          status = coalesce(x->'set'->>'status', status),
          output_ordinal = coalesce((x->'set'->>'output_ordinal')::int, output_ordinal),
          stop_reason = coalesce(x->'set'->>'stop_reason', stop_reason),
          error = coalesce(x->'set'->'error', error),
          structured = coalesce(x->'set'->>'structured', structured),
          checkpoint_id = coalesce((x->'set'->>'checkpoint_id')::uuid, checkpoint_id),
          completed_at = coalesce((x->'set'->>'completed_at')::timestamptz, completed_at),
          steps = steps + coalesce((x->'add'->>'steps')::int, 0),
          tokens_in = tokens_in + coalesce((x->'add'->>'tokens_in')::bigint, 0),
          tokens_out = tokens_out + coalesce((x->'add'->>'tokens_out')::bigint, 0),
          cost_usd = case when x->'add' ? 'cost_usd' then cost_usd + (x->'add'->>'cost_usd')::numeric else cost_usd end
        where id = (x->>'key')::uuid;
    elsif x ? 'add' then
      -- A step in the middle of the turn. Fewer columns: setting up the statement is most of its cost.
      update turns set
          steps = steps + coalesce((x->'add'->>'steps')::int, 0),
          tokens_in = tokens_in + coalesce((x->'add'->>'tokens_in')::bigint, 0),
          tokens_out = tokens_out + coalesce((x->'add'->>'tokens_out')::bigint, 0),
          cost_usd = case when x->'add' ? 'cost_usd' then cost_usd + (x->'add'->>'cost_usd')::numeric else cost_usd end
        where id = (x->>'key')::uuid;
    end if;
    if coalesce(x->'set'->>'status', x->'insert'->>'status') = 'failed' then
      update turns u set failed_agent_id = r.agent_id from runs r where u.id = (x->>'key')::uuid and r.id = run;
    end if;
  end loop;
end $$;
