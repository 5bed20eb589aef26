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
