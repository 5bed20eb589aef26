-- Changes and claims of several runs in one transaction. Each sets its own tenant; none sees another's rows.
create or replace function change_runs(changes jsonb) returns jsonb language plpgsql as $$
declare
  results jsonb := '[]';
  c jsonb;
begin
  for i in 0 .. jsonb_array_length(changes) - 1 loop
    c := changes->i;
    if c ? 'claim' then results := results || jsonb_build_array(claim_run(c));
    else results := results || jsonb_build_array(commit_run(c)); end if;
  end loop;
  return results;
end $$;

-- The same for a batch that has failed: each in a subtransaction of its own, so that one which cannot be made answers its
-- error and hurts only itself. Never the first time: a subtransaction costs its own transaction id.
create or replace function change_runs_apart(changes jsonb) returns jsonb language plpgsql as $$
declare
  results jsonb := '[]';
  c jsonb;
  answer jsonb;
  code text;
  problem text;
begin
  for i in 0 .. jsonb_array_length(changes) - 1 loop
    c := changes->i;
    begin
      if c ? 'claim' then answer := claim_run(c); else answer := commit_run(c); end if;
    exception when others then
      get stacked diagnostics code = returned_sqlstate, problem = message_text;
      answer := jsonb_build_object('error', jsonb_build_object('code', code, 'message', problem));
    end;
    results := results || jsonb_build_array(answer);
  end loop;
  return results;
end $$;
