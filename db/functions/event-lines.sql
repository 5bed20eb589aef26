-- An event is a line of the text `run_log.events`: its type, the version of its payload, its step or `-`, who has written it, its
-- turn (absent: that of the row, `-`: none), and its payload as a JSON object, which has no line breaks. In a row with long payloads
-- they are elements of `run_log.payload` instead, as jsonb, which is read faster where there is much of it. db/commit-run.ts makes
-- the lines, and this their heads for what comes as an event each.
create or replace function head_of_event(e jsonb, row_turn text) returns text language sql immutable as $$
  select (e->>'type') || ' ' || (e->>'schema_version') || ' ' || coalesce(e->>'step', '-') || ' ' || (e->>'actor')
    || case when e->>'turn_id' is null then ' -' when e->>'turn_id' = row_turn then '' else ' ' || (e->>'turn_id') end
$$;

create or replace function payload_of_line(line text) returns jsonb language sql immutable as $$
  select substr(line, strpos(line, '{'))::jsonb
$$;

-- The same event with another payload, which the line has or not, and of which the version may be another, too.
create or replace function line_with_payload(line text, payload jsonb, version text) returns text language sql immutable as $$
  select regexp_replace(case when strpos(line, '{') = 0 then line else left(line, strpos(line, '{') - 1) end, '^(\S+) (\S+)',
    '\1 ' || coalesce(version, '\2')) || case when strpos(line, '{') = 0 then '' else payload::text end
$$;
