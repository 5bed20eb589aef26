-- A part of commit_runs. In PL/pgSQL, which keeps the plan: a function in SQL would be planned anew in each call.
create or replace function apply_policy_decisions(tenant uuid, run uuid, list jsonb) returns void language plpgsql as $$
begin
  insert into policy_decisions (tenant_id, run_id, seq, turn_id, tool_call_id, decision, stage, policy_id, policy_version,
      reason, created_at)
    select d.tenant_id, d.run_id, d.seq, d.turn_id, d.tool_call_id, d.decision, d.stage, d.policy_id, d.policy_version,
      d.reason, d.created_at
    from jsonb_array_elements(list) x, jsonb_populate_record(null::policy_decisions, x->'insert') d;
end $$;
