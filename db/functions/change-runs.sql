-- Changes and claims of several runs in one transaction: those of one tenant together, as they stand next to each other. None
-- sees another tenant's rows.
create or replace function change_runs(changes jsonb) returns jsonb language plpgsql as $$
declare
  results jsonb := '[]';
  first integer := 0;
  count constant integer := jsonb_array_length(changes);
begin
  for i in 1 .. count loop
    continue when i < count and changes->i->'tenant_id' = changes->first->'tenant_id';
    results := results || commit_runs(case when i - first = count then changes
      else jsonb_path_query_array(changes, '$[$first to $last]', jsonb_build_object('first', first, 'last', i - 1)) end);
    first := i;
  end loop;
  return results;
end $$;

-- The same for a batch that has failed: each in a subtransaction of its own, so that one which cannot be made answers its
-- error and hurts only itself. Never the first time: a subtransaction costs its own transaction id.
create or replace function change_runs_apart(changes jsonb) returns jsonb language plpgsql as $$
declare
  results jsonb := '[]';
  answer jsonb;
  code text;
  problem text;
begin
  for i in 0 .. jsonb_array_length(changes) - 1 loop
    begin
      answer := commit_runs(jsonb_build_array(changes->i))->0;
    exception when others then
      get stacked diagnostics code = returned_sqlstate, problem = message_text;
      answer := jsonb_build_object('error', jsonb_build_object('code', code, 'message', problem));
    end;
    results := results || jsonb_build_array(answer);
  end loop;
  return results;
end $$;
