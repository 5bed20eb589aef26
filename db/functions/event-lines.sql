-- An event as a line of the text `run_log.events`: its type, the version of its payload, its step or `-`, who has written it, its
-- turn (absent: that of the row, `-`: none), and its payload as a JSON object, which has no line breaks. db/commit-run.ts makes the same.
create or replace function line_of_event(e jsonb, row_turn text) returns text language sql immutable as $$
  select (e->>'type') || ' ' || (e->>'schema_version') || ' ' || coalesce(e->>'step', '-') || ' ' || (e->>'actor') || ' '
    || case when e->>'turn_id' is null then '- ' when e->>'turn_id' = row_turn then '' else (e->>'turn_id') || ' ' end || (e->'payload')::text
$$;

create or replace function payload_of_line(line text) returns jsonb language sql immutable as $$
  select substr(line, strpos(line, '{'))::jsonb
$$;

-- The same event with another payload, of which the version may be another, too.
create or replace function line_with_payload(line text, payload jsonb, version text) returns text language sql immutable as $$
  select regexp_replace(left(line, strpos(line, '{') - 1), '^(\S+) (\S+)', '\1 ' || coalesce(version, '\2')) || payload::text
$$;
