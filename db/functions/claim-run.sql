-- A page of what is read of a run: its events, its messages, and the outcomes of calls: of those that the messages refer
-- to, and of those that are asked for. `next` says from where on (events_from, messages_from, calls), and with `bytes`
-- how large the page may be: whatever a run has lived through, no answer comes near the size that jsonb can have. What
-- does not fit is answered as `rest`, the `next` of the next page; a page with `least` has one thing at least.
-- Of an output that part is read which the model sees. A whole one that no build has split yet (`split-outputs`) is only
-- named in a page with a size; who knows no pages gets it as it is. Of outputs larger than `shown` the address is answered.
create or replace function run_page(r runs, next jsonb) returns jsonb language plpgsql stable as $$
declare
  room bigint := coalesce((next->>'bytes')::bigint, 9223372036854775807);
  has_size boolean := next ? 'bytes';
  is_first boolean := next ? 'least';
  is_full boolean := false;
  events_from bigint := (next->>'events_from')::bigint;
  next_from bigint;
  messages_from integer := (next->>'messages_from')::int;
  calls uuid[] := array(select jsonb_array_elements_text(next->'calls')::uuid);
  done integer := 0;
  segment jsonb;
  item record;
  events jsonb[] := '{}';
  messages jsonb[] := '{}';
  outcomes jsonb[] := '{}';
  d text;
begin
  -- A plan that fits all partitions locks all of them whenever it runs: 106 locks with 31 of each table, 1201 with a year of
  -- daily ones beside, which no lock table holds for long. One that is made for the run locks its own alone.
  d := set_config('plan_cache_mode', 'force_custom_plan', true);
  -- As far as the run went when its first page was read.
  r.last_seq := coalesce((next->>'events_to')::bigint, r.last_seq);
  r.length := coalesce((next->>'messages_to')::int, r.length);
  -- A thousand at a time: for all of a long log at once the planner sorts it, however little of it fits.
  while events_from <= r.last_seq and not is_full loop
    next_from := events_from;
    for item in select * from run_events e where e.run_id = r.id and e.commit_seq >= next_from and e.seq >= next_from
        and e.seq <= r.last_seq order by e.commit_seq, e.seq limit 1000 loop
      room := room - json_bytes(item.payload);
      is_full := room < 0 and not is_first;
      exit when is_full;
      is_first := false;
      events_from := item.seq + 1;
      events := array_append(events, jsonb_build_object('seq', item.seq, 'type', item.type,
        'schema_version', item.schema_version, 'turn_id', item.turn_id, 'step', item.step, 'actor', item.actor,
        'payload', item.payload, 'occurred_at', item.occurred_at));
    end loop;
    exit when events_from = next_from;
  end loop;
  for segment in select jsonb_array_elements(r.lineage_base || jsonb_build_array(
      jsonb_build_object('lineage', r.lineage, 'length', r.length))) loop
    exit when is_full;
    continue when (segment->>'length')::int <= messages_from;
    for item in select m.ordinal, m.role, m.content, m.chain, m.origin from messages m where m.lineage = (segment->>'lineage')::uuid and m.ordinal >= messages_from
          and m.ordinal < least((segment->>'length')::int, r.length) order by m.ordinal loop
      room := room - json_bytes(item.content);
      is_full := room < 0 and not is_first;
      exit when is_full;
      is_first := false;
      messages_from := item.ordinal + 1;
      messages := array_append(messages, jsonb_build_object('ordinal', item.ordinal, 'role', item.role,
        'content', item.content, 'chain', item.chain)
        || case when item.origin = 'drover' then jsonb_build_object('origin', item.origin) else '{}' end);
    end loop;
  end loop;
  d := set_config('plan_cache_mode', 'force_generic_plan', true);
  calls := calls || array(select (b->>'tool_call_id')::uuid from unnest(messages) with ordinality as list(m, place),
    jsonb_array_elements(m->'content') with ordinality as blocks(b, n) where b ? 'tool_call_id' order by place, n);
  if not is_full and cardinality(calls) > 0 then
    for item in select list.place, k.*, k.model_output is null and coalesce(k.output_bytes, 0) > 1048576 as is_whole,
        coalesce(k.output_bytes, 0) > (next->>'shown')::bigint as is_left_out, least(coalesce(k.output_bytes, 0), 1048576) as bytes
        from unnest(calls) with ordinality as list(id, place) join tool_calls k on k.id = list.id order by list.place loop
      room := room - case when item.is_left_out then 100 else item.bytes end;
      is_full := room < 0 and not is_first;
      exit when is_full;
      is_first := false;
      done := item.place;
      outcomes := array_append(outcomes, jsonb_build_object('id', item.id, 'status', item.status, 'is_error', item.is_error)
        || case when item.is_left_out then jsonb_build_object('output', null, 'content', jsonb_build_array(jsonb_build_object(
            'type', 'text', 'text', '[output of ' || item.output_bytes || ' bytes: /v1/tool-calls/' || item.id || '/output]')))
          when item.is_whole and has_size then jsonb_build_object('output', null, 'is_whole', true)
          when item.model_output is null then jsonb_build_object('output', item.output)
          when has_size then jsonb_build_object('output', null, 'content', item.model_output)
          else jsonb_build_object('output', item.model_output) end);
    end loop;
  end if;
  return jsonb_build_object('events', to_jsonb(events), 'messages', to_jsonb(messages),
      'outcomes', coalesce((select jsonb_object_agg(o->>'id', o - 'id') from unnest(outcomes) o), '{}'))
    || case when is_full then jsonb_build_object('rest', jsonb_build_object('events_from', events_from,
      'messages_from', messages_from, 'events_to', r.last_seq, 'messages_to', r.length,
      'shown', next->'shown', 'calls', to_jsonb(calls[done + 1:]))) else '{}' end;
end $$;

-- A page of a run beyond the one that its claim has answered.
create or replace function read_run_page(p jsonb) returns jsonb language plpgsql as $$
declare
  d text;
  page jsonb;
begin
  d := set_config('drover.tenant_id', p->>'tenant_id', true);
  d := set_config('plan_cache_mode', 'force_generic_plan', true);
  d := set_config('enable_seqscan', 'off', true);
  select run_page(r, p->'next') into page from runs r where r.id = (p->>'run_id')::uuid;
  return coalesce(page, '{}');
end $$;

-- For processes of 0.1.0, which know no pages.
create or replace function run_messages(r runs, from_ordinal integer, also_calls uuid[]) returns jsonb language sql stable as $$
  select run_page(r, jsonb_build_object('messages_from', from_ordinal, 'calls', to_jsonb(also_calls))) - 'events';
$$;

-- Whether a run's first event is of a version that 0.1.0 cannot read, which knows the first.
create or replace function is_created_newer(run uuid) returns boolean language plpgsql as $$
declare
  d text;
  version integer;
begin
  -- Planned for the run, see run_page.
  d := set_config('plan_cache_mode', 'force_custom_plan', true);
  select e.schema_version into version from run_events e where e.run_id = run and e.seq = 1 order by e.commit_seq limit 1;
  d := set_config('plan_cache_mode', 'force_generic_plan', true);
  return version > 1;
end $$;

-- Claims a run for a driver and answers all it needs to go on: the row, the newest usable checkpoint, the later events,
-- the messages; with page_bytes only the first page of events and messages, see run_page. With claim = false it only reads, for the driver that holds the run already. A driver that has cached
-- the run up to a position (known) gets the event at that position, which proves that the log is the same, and what is
-- new. With window the messages that models are not sent any more, as the checkpoint or the run's creation has it, are left
-- out: `before` tells how many, with the chain hash of the last of them. A fork is compared with its record and always has all.
create or replace function claim_run(p jsonb) returns jsonb language plpgsql as $$
declare
  r runs;
  k checkpoints;
  d text;
  known jsonb := p->'known';
  from_seq bigint := 1;
  cut jsonb;
  before jsonb;
  lost integer;
begin
  d := set_config('drover.tenant_id', p->>'tenant_id', true);
  -- A plan that was made while a table was small must not scan it when it has grown (16 ms against 0.1 ms for the calls of
  -- ten messages). What reads partitioned tables is planned for the run, see run_page.
  d := set_config('plan_cache_mode', 'force_generic_plan', true);
  d := set_config('enable_seqscan', 'off', true);
  if (p->>'claim')::boolean then
    if not p ? 'page_bytes' and is_created_newer((p->>'run_id')::uuid) then
      -- A process of 0.1.0 could only give the run back, and be the first to meet it again. `subtasks` is a queue that it does not serve.
      insert into outbox (id, tenant_id, queue, job_id, payload)
        select gen_random_uuid(), tenant_id, 'subtasks', id || '-' || last_seq || '-' || q.fence,
            jsonb_build_object('tenantId', tenant_id, 'runId', id, 'seq', last_seq, 'isTurn', true)
          from runs q where id = (p->>'run_id')::uuid and status not in ('completed', 'failed', 'cancelled')
            and (driver_lease_expires_at is null or driver_lease_expires_at < clock_timestamp()) and last_seq >= (p->>'seq')::bigint;
    else
      -- A lease that is over and was not given back was lost, with its driver.
      update runs set fence = fence + 1,
          lost_leases = lost_leases + case when driver_lease_expires_at is null then 0 else 1 end,
          driver_lease_expires_at = clock_timestamp() + (p->>'lease_ms')::int * interval '1 ms'
        where id = (p->>'run_id')::uuid and status not in ('completed', 'failed', 'cancelled')
          and (driver_lease_expires_at is null or driver_lease_expires_at < clock_timestamp())
          and last_seq >= (p->>'seq')::bigint
          and (not p ? 'suspect_from' or (p->>'suspect_from')::int >
            lost_leases + case when driver_lease_expires_at is null then 0 else 1 end)
        returning * into r;
    end if;
    if r.id is null then
      select * into r from runs where id = (p->>'run_id')::uuid;
      lost := r.lost_leases + case when r.driver_lease_expires_at is null then 0 else 1 end;
      return jsonb_build_object('ok', false, 'seq', r.last_seq, 'why', case when r.id is null then 'missing'
        when r.last_seq < (p->>'seq')::bigint then 'beyond'
        when r.status in ('completed', 'failed', 'cancelled') then 'finished'
        when lost >= (p->>'suspect_from')::int
          and (r.driver_lease_expires_at is null or r.driver_lease_expires_at < clock_timestamp()) then 'suspect'
        else 'held' end);
    end if;
  else
    select * into r from runs where id = (p->>'run_id')::uuid;
    if r.id is null then return jsonb_build_object('ok', false, 'why', 'missing'); end if;
  end if;
  if r.last_seq < (known->>'seq')::bigint or r.length < (known->>'length')::int then known := null; end if;
  if known is not null then
    from_seq := (known->>'seq')::bigint;
  else
    d := set_config('plan_cache_mode', 'force_custom_plan', true);
    if r.checkpoint_seq is not null then
      select * into k from checkpoints where run_id = r.id
        and seq <= least(r.checkpoint_seq, (p->>'before_checkpoint')::bigint - 1) order by seq desc limit 1;
      from_seq := coalesce(k.seq, 0) + 1;
      cut := k.state->'cut' || jsonb_build_object('firstKept', k.state->'firstKept');
    elsif p ? 'window' and r.base_length > 0 then
      select jsonb_build_object('firstKept', c->'first_kept_ordinal', 'droppedTokens', c->'dropped_tokens', 'budgetTokens', c->'budget_tokens')
        into cut from (select e.payload->'cut' as c from run_events e where e.run_id = r.id and e.seq = 1
          order by e.commit_seq limit 1) created where c is not null;
    end if;
    if p ? 'window' and cut is not null and r.forked_at_seq is null then
      select jsonb_build_object('messages', m.ordinal + 1, 'chain', m.chain, 'tokens', cut->'droppedTokens',
          'budgetTokens', cut->'budgetTokens') into before
        from messages m where m.lineage = r.lineage and m.ordinal = (cut->>'firstKept')::int - 1;
    end if;
    d := set_config('plan_cache_mode', 'force_generic_plan', true);
  end if;
  return jsonb_build_object('ok', true, 'run', to_jsonb(r), 'checkpoint', case when k.run_id is not null then to_jsonb(k) end,
    'policy_epoch', (select policy_epoch from tenants where id = r.tenant_id), 'from', case when known is not null then from_seq end)
    || case when before is not null then jsonb_build_object('before', before) else '{}' end
    || run_page(r, jsonb_build_object('events_from', from_seq, 'messages_from', coalesce((known->>'length')::int, (before->>'messages')::int, 0),
      'calls', coalesce(known->'calls', '[]')) || case when p ? 'page_bytes' then jsonb_build_object('bytes', p->'page_bytes') else '{}' end);
end $$;
