-- Deletes files of the current tenant with what answers kept for idempotency keys tell of them, and leaves to maintenance the
-- contents that no other file has. Answers how many files went.
create or replace function delete_files(ids uuid[]) returns integer language plpgsql as $$
declare
  tenant uuid := nullif(current_setting('drover.tenant_id', true), '')::uuid;
  contents uuid[];
  gone integer;
begin
  -- Before the usage, since an upload that reuses an expired key locks in that order, too.
  perform from idempotency_keys where shown_id = any(ids::text[]) order by route, key for update;
  update idempotency_keys set response = response || '{"filename": "", "mime_type": "", "sha256": ""}'
    where shown_id = any(ids::text[]);
  -- Held until the end: nobody takes up a content meanwhile that is about to go.
  perform from file_usage where tenant_id = tenant for update;
  select coalesce(array_agg(distinct content_id), '{}') into contents from files where id = any(ids);
  delete from files where id = any(ids);
  get diagnostics gone = row_count;
  with unused as (
    update file_contents c set state = 'garbage', changed_at = now()
      where c.id = any(contents) and c.state = 'stored' and not exists (select from files f where f.content_id = c.id)
      returning c.size)
  update file_usage set bytes = bytes - (select coalesce(sum(size), 0) from unused) where tenant_id = tenant;
  return gone;
end $$;

-- Files go with the last run that they have come into; with a thread those that were stored for it.
create or replace function erase_files_of_run(run uuid) returns integer language plpgsql as $$
declare
  used uuid[];
begin
  with gone as (delete from file_uses where run_id = run returning file_id)
  select array_agg(file_id) into used from gone;
  -- Whoever takes one up holds it: what is looked for next sees its use, too.
  perform from files f where f.run_id = run or f.id = any(coalesce(used, '{}')) order by f.id for update;
  return delete_files(array(
    select id from files f where (f.run_id = run or f.id = any(coalesce(used, '{}')))
      and not exists (select from file_uses u where u.file_id = f.id and u.run_id <> run)));
end $$;

create or replace function erase_files_of_thread(thread uuid) returns integer language sql as $$
  select delete_files(array(select id from files where thread_id = thread))
$$;
