-- The part of commit_runs that few changes have; answers what it adds to the answer.
create or replace function commit_rest(tenant uuid, c jsonb, r committed_row) returns jsonb language plpgsql as $$
declare
  run uuid := c->>'run_id';
  x jsonb;
  projection text;
  outbox jsonb := c->'outbox';
  continued boolean := false;
  claimed jsonb;
begin
  -- Rows of the other projections, table by table.
  if c ? 'rows' then
    for projection, x in select * from jsonb_each(c->'rows') loop
      execute format('select %I($1, $2, $3)', 'apply_' || projection) using tenant, run, x;
    end loop;
  end if;
  if c ? 'audit' then
    insert into audit_log (id, tenant_id, workspace_id, action, actor_type, target_type, target_id, details)
      select (entry->>'id')::uuid, tenant, r.workspace_id, entry->>'action', 'system', entry->>'target_type', entry->>'target_id', entry->'details'
      from jsonb_array_elements(c->'audit') as list(entry);
  end if;
  if c ? 'waits' then
    insert into waits (id, tenant_id, run_id, turn_id, type, name, until, token_hash, token_key_id, token_sealed, created_at)
      select (w->>'id')::uuid, tenant, run, (w->>'turn_id')::uuid, w->>'type', w->>'name', coalesce((w->>'until')::timestamptz,
        now() + (w->>'seconds')::numeric * interval '1 second'), decode(w->'token'->>'hash', 'hex'), w->'token'->>'key_id', decode(w->'token'->>'sealed', 'hex'), now() from jsonb_array_elements(c->'waits') w
      -- Work that goes on elsewhere may ask again, once it was answered.
      on conflict (id) do update set until = excluded.until, created_at = excluded.created_at, closed_at = null, claimed_until = null
        where waits.closed_at is not null;
  end if;
  if c ? 'close_waits' then
    update waits set closed_at = now()
      where run_id = run and closed_at is null and (c->'close_waits' = 'true' or c->'close_waits' ? id::text);
    if c->'close_waits' = 'true' then delete from parked_runs where run_id = run; end if;
  end if;
  if c ? 'park' then
    delete from parked_runs where run_id = run;
    insert into parked_runs (run_id, outage, tenant_id, parked_at, until)
      select run, o, tenant, clock_timestamp(), (c->'park'->>'until')::timestamptz from jsonb_array_elements_text(c->'park'->'outages') o;
  end if;
  if c ? 'checkpoint' then
    insert into checkpoints (tenant_id, run_id, seq, id, parent_id, node, trigger, lineage, length, state, channel_versions, pending_sends,
        hash, created_at)
      select tenant_id, run_id, seq, id, parent_id, node, trigger, lineage, length, state, channel_versions, pending_sends,
        hash, created_at from jsonb_populate_record(null::checkpoints, c->'checkpoint');
  end if;
  if c ? 'title_of' then
    insert into due_titles (thread_id, tenant_id, due_at) values ((c->>'title_of')::uuid, tenant, clock_timestamp()) on conflict do nothing;
  end if;
  if c ? 'title_if_first' then
    -- Most threads have their title by then.
    perform from threads where id = (c->>'title_if_first')::uuid and title is null;
    if found then
      insert into due_titles (thread_id, tenant_id, due_at)
        select t.id, tenant, clock_timestamp() from threads t where t.id = (c->>'title_if_first')::uuid
          and not exists (select from runs q join turns u on u.run_id = q.id where q.thread_id = t.id and u.status = 'complete' offset 1)
        on conflict do nothing;
    end if;
  end if;
  if c ? 'learns_from' then
    insert into memory_extractions (turn_id, tenant_id, agent_id, run_id)
      values ((c->'learns_from'->>'turn_id')::uuid, tenant, (c->'learns_from'->>'agent_id')::uuid, run) on conflict do nothing;
  end if;
  if c ? 'reservations' then perform apply_reservations(tenant, run, r.fence, c->'reservations'); end if;
  -- The change that ends the last call which the run waits for sends the job that drives it on.
  if c ? 'continuation' then
    perform from tool_calls where run_id = run and mode = 'queued' and status in ('pending', 'running') limit 1;
    continued := not found;
    -- Or it claims the run, if its process has a free slot.
    if continued and c ? 'then_claim' then
      claimed := claim_run(c->'then_claim' || jsonb_build_object('tenant_id', tenant, 'run_id', run, 'seq', r.last_seq, 'claim', true));
    end if;
    if continued and claimed->'ok' is distinct from 'true' then outbox := coalesce(outbox, '[]') || (c->'continuation'); end if;
  end if;
  if outbox is not null then
    -- The id of a job for the committed position: jobs/define-job.ts makes the same.
    insert into outbox (id, tenant_id, queue, job_id, payload, not_before, parent)
      select coalesce((o->>'id')::uuid, gen_random_uuid()), tenant, o->>'queue',
        case when o ? 'at_position' then run || '-' || r.last_seq || '-' || r.fence else o->>'job_id' end,
        case when o ? 'at_position' then (o->'payload') || jsonb_build_object('seq', r.last_seq) else o->'payload' end,
        clock_timestamp() + (o->>'delay_ms')::numeric * interval '1 ms',
        case when o->'parent' ? 'at_position' then jsonb_build_object('queue', o->'parent'->'queue', 'job_id', run || '-' || r.last_seq || '-' || r.fence) else o->'parent' end
      from jsonb_array_elements(outbox) o;
  end if;
  return jsonb_build_object('continued', continued)
    || case when claimed is not null then jsonb_build_object('claimed', claimed) else '{}' end
    || case when c ? 'rate_limiter' then jsonb_build_object('back_off_ms', model_back_off_ms(c->>'rate_limiter')) else '{}' end;
end $$;

-- Commits changes of runs of one tenant; there may be claims (`claim_run`) among them. First the row of each run is locked, checked
-- and changed, in the order of the changes; then what all of them add to events, messages and calls is inserted, table by table;
-- then comes what few of them have. Setting up a statement is most of the cost of a short one: seven changes take a
-- sixth less than one after the other.
create or replace function commit_runs(changes jsonb) returns jsonb language plpgsql as $$
declare
  tenant uuid := changes->0->>'tenant_id';
  epoch bigint;
  c jsonb;
  run uuid;
  s jsonb;
  a jsonb;
  place integer;
  outputs bigint;
  added integer;
  r committed_row;
  -- Of each change that is made the row of its run after it; of each other one its answer.
  made committed_row[] := '{}';
  -- When it happened, and when each of them did.
  moment timestamptz;
  times timestamptz[] := '{}';
  answers jsonb[] := '{}';
  has_late_claims boolean := false;
  runs_changed uuid[] := '{}';
  has_messages boolean := false;
  has_calls boolean := false;
  has_webhooks boolean;
  x jsonb;
  d text;
  is_full boolean;
  answer jsonb;
begin
  -- A condition with a subquery is planned anew each time, so each of them stands in a branch of its own.
  d := set_config('drover.tenant_id', changes->0->>'tenant_id', true);
  -- A plan that was made while a table was small must not scan it when it has grown.
  d := set_config('enable_seqscan', 'off', true);
  for i in 1 .. jsonb_array_length(changes) loop
    c := changes->(i - 1);
    run := c->>'run_id';
    if c ? 'claim' then
      -- One that comes after a change of the same run reads, at the end, what all of these have made of it.
      if run = any(runs_changed) then has_late_claims := true; else answers[i] := claim_run(c); end if;
      continue;
    end if;
    if c ? 'policy_epoch' then
      if epoch is null then
        -- Whoever has advanced the epoch waits for the transactions that it then finds writing (listWriters): this one is one
        -- of them before it looks, however long it waits for the rows of its runs.
        d := pg_current_xact_id()::text;
        select t.policy_epoch into epoch from tenants t where t.id = tenant;
      end if;
      if epoch is distinct from (c->>'policy_epoch')::bigint then
        answers[i] := jsonb_build_object('ok', false, 'why', 'policy_epoch');
        continue;
      end if;
    end if;
    s := c->'runs'->'set';
    a := c->'runs'->'add';
    outputs := coalesce((c->>'output_bytes')::bigint, 0);
    if c ? 'events' then
      c := with_log(c);
      changes := jsonb_set(changes, array[(i - 1)::text], c);
    end if;
    added := coalesce((c->'log'->>'count')::int, 0);
    r := null;
    if c ? 'output_limit' then
      select output_bytes + outputs > (c->>'output_limit')::bigint into is_full from runs where id = run for no key update;
      if is_full then
        answers[i] := jsonb_build_object('ok', false, 'why', 'run_output_limit');
        continue;
      end if;
    end if;
    if c ? 'create' then
      place := c->'create'->>'thread_place';
      if c ? 'thread' then
        insert into threads (id, tenant_id, workspace_id, agent_id, created_at, parent_run_id, head_run_id, run_count)
          select id, tenant_id, workspace_id, agent_id, created_at, parent_run_id, case when place is not null then run end, coalesce(place, 0)
          from jsonb_populate_record(null::threads, c->'thread');
      elsif place is not null then
        -- Whoever creates the run holds the thread's row and has read there which place is free.
        update threads set head_run_id = run, run_count = place
          where id = (c->'create'->>'thread_id')::uuid and run_count = place - 1;
        if not found then raise exception 'thread % has no place % free', c->'create'->>'thread_id', place; end if;
      end if;
      -- A run that is created with a lease is claimed from the beginning, by the process that creates it.
      insert into runs (id, tenant_id, workspace_id, agent_id, agent_version, thread_id, kind, status, waiting_for, queued, dequeued_id, idle_since, open_turn_id,
          turn_count, stop_reason, error, output_ordinal, config, metadata, pinned, keep_open, lineage, lineage_base, base_length, length,
          steps, tokens_in, tokens_out, cost_usd, parent_run_id, root_run_id, parent_task_id, depth, forked_from_run_id,
          forked_at_seq, retried_from, thread_place, traceparent, created_at, started_at, completed_at, updated_at, last_seq, fence,
          checkpoint_seq, dormant, output_bytes, driver_lease_expires_at)
        select id, tenant_id, workspace_id, agent_id, agent_version, thread_id, kind, status, waiting_for, queued, dequeued_id, idle_since, open_turn_id,
          turn_count, stop_reason, error, output_ordinal, config, metadata, pinned, keep_open, lineage, lineage_base, base_length, length,
          steps, tokens_in, tokens_out, cost_usd, parent_run_id, root_run_id, parent_task_id, depth, forked_from_run_id,
          forked_at_seq, retried_from, thread_place, traceparent, created_at, started_at, completed_at, updated_at, last_seq, fence,
          checkpoint_seq, dormant, outputs, case when c ? 'lease_ms' then clock_timestamp() + (c->>'lease_ms')::int * interval '1 ms' end
        from jsonb_populate_record(null::runs, c->'create')
        returning last_seq, fence, status, workspace_id, lineage, updated_at into r.last_seq, r.fence, r.status, r.workspace_id, r.lineage, moment;
    elsif c ? 'open' then
      -- What a tool worker appends says nothing of the run's own columns.
      update runs set updated_at = greatest(now(), updated_at), last_seq = last_seq + added, output_bytes = output_bytes + outputs, dormant = dormant and not c ?| array['continuation', 'outbox']
        where id = run and status not in ('completed', 'failed', 'cancelled')
        returning last_seq, fence, status, workspace_id, lineage, updated_at into r.last_seq, r.fence, r.status, r.workspace_id, r.lineage, moment;
    elsif s ? 'status' or s ? 'open_turn_id' or s ? 'waiting_for' or s ? 'dequeued_id' or c ? 'checkpoint' or c ? 'bump_fence' or not c ? 'lease_ms' then
      update runs set
          status = coalesce(s->>'status', status),
          waiting_for = case when s ? 'waiting_for' then nullif(s->'waiting_for', 'null') else waiting_for end,
          queued = coalesce(s->'queued', queued),
          dequeued_id = coalesce((s->>'dequeued_id')::uuid, dequeued_id),
          idle_since = case when s ? 'idle_since' then (s->>'idle_since')::timestamptz else idle_since end,
          open_turn_id = case when s ? 'open_turn_id' then (s->>'open_turn_id')::uuid else open_turn_id end,
          turn_count = coalesce((s->>'turn_count')::int, turn_count),
          stop_reason = coalesce(s->>'stop_reason', stop_reason),
          error = case when s ? 'error' then nullif(s->'error', 'null') else error end,
          output_ordinal = coalesce((s->>'output_ordinal')::int, output_ordinal),
          structured = case when s ? 'structured' then s->>'structured' else structured end,
          trust = case when s ? 'trust' then s->>'trust' else trust end,
          length = coalesce((s->>'length')::int, length),
          steps = steps + coalesce((a->>'steps')::int, 0),
          tokens_in = tokens_in + coalesce((a->>'tokens_in')::bigint, 0),
          tokens_out = tokens_out + coalesce((a->>'tokens_out')::bigint, 0),
          cost_usd = case when a ? 'cost_usd' then cost_usd + (a->>'cost_usd')::numeric else cost_usd end,
          started_at = coalesce((s->>'started_at')::timestamptz, started_at),
          completed_at = coalesce((s->>'completed_at')::timestamptz, completed_at),
          erased_at = coalesce((s->>'erased_at')::timestamptz, erased_at),
          checkpoint_seq = coalesce((c->'checkpoint'->>'seq')::bigint, checkpoint_seq),
          updated_at = greatest(now(), updated_at),
          last_seq = last_seq + added,
          output_bytes = output_bytes + outputs,
          lost_leases = case when added > 0 and not c ? 'in_place' then 0 else lost_leases end,
          fence = fence + case when c ? 'bump_fence' then 1 else 0 end,
          driver_lease_expires_at = case
            when c ? 'lease_ms' then clock_timestamp() + (c->>'lease_ms')::int * interval '1 ms'
            when c ? 'release' then null else driver_lease_expires_at end,
          dormant = case when c ? 'dormant' then true when c ? 'fence' or c ? 'outbox' or c ? 'continuation' then false else dormant end
        where id = run and fence = coalesce((c->>'fence')::int, fence) and last_seq = coalesce((c->>'expect')::bigint, last_seq)
        returning last_seq, fence, status, workspace_id, lineage, updated_at into r.last_seq, r.fence, r.status, r.workspace_id, r.lineage, moment;
    else
      -- A driver's step in the middle of a turn. Fewer columns: setting up the statement is most of its cost.
      update runs set
          length = coalesce((s->>'length')::int, length),
          steps = steps + coalesce((a->>'steps')::int, 0),
          tokens_in = tokens_in + coalesce((a->>'tokens_in')::bigint, 0),
          tokens_out = tokens_out + coalesce((a->>'tokens_out')::bigint, 0),
          cost_usd = case when a ? 'cost_usd' then cost_usd + (a->>'cost_usd')::numeric else cost_usd end,
          updated_at = greatest(now(), updated_at),
          last_seq = last_seq + added,
          output_bytes = output_bytes + outputs,
          lost_leases = case when added > 0 and not c ? 'in_place' then 0 else lost_leases end,
          driver_lease_expires_at = clock_timestamp() + (c->>'lease_ms')::int * interval '1 ms'
        where id = run and fence = (c->>'fence')::int and last_seq = coalesce((c->>'expect')::bigint, last_seq)
        returning last_seq, fence, status, workspace_id, lineage, updated_at into r.last_seq, r.fence, r.status, r.workspace_id, r.lineage, moment;
    end if;
    if r.last_seq is null then
      select last_seq, fence into r from runs where id = run;
      answers[i] := jsonb_build_object('ok', false, 'fence', r.fence, 'seq', r.last_seq, 'why', case when r.fence is null then 'missing'
        when c ? 'open' then 'finished' when r.fence <> (c->>'fence')::int then 'fence' else 'behind' end);
      continue;
    end if;
    if moment > now() then
      -- Its transaction has waited while others wrote here: it happened after what they wrote.
      c := with_time(c, moment);
      changes := jsonb_set(changes, array[(i - 1)::text], c);
      s := c->'runs'->'set';
      update runs set started_at = coalesce((s->>'started_at')::timestamptz, started_at),
          completed_at = coalesce((s->>'completed_at')::timestamptz, completed_at),
          erased_at = coalesce((s->>'erased_at')::timestamptz, erased_at),
          idle_since = coalesce((s->>'idle_since')::timestamptz, idle_since) where id = run;
    end if;
    made[i] := r;
    times[i] := moment;
    runs_changed := runs_changed || run;
    has_messages := has_messages or c ? 'messages';
    has_calls := has_calls or c ? 'new_calls';
  end loop;

  if runs_changed = '{}' then return to_jsonb(answers); end if;
  insert into run_log (tenant_id, workspace_id, run_id, seq, turn_id, occurred_at, event_count, events, payload)
    select tenant, (made[l.i]).workspace_id, (l.c->>'run_id')::uuid, (made[l.i]).last_seq, (g->>'turn_id')::uuid, times[l.i],
      (g->>'count')::int, g->>'events', g->'payload'
    from jsonb_array_elements(changes) with ordinality as l(c, i), lateral (select l.c->'log' as g offset 0) as log
    where (made[l.i]).last_seq is not null and l.c ? 'log';
  if has_messages then
    insert into messages (tenant_id, lineage, ordinal, run_id, role, content, chain, origin, trust, created_at)
      select tenant, (made[l.i]).lineage, (m->>'ordinal')::int, (l.c->>'run_id')::uuid, m->>'role', m->'content', m->>'chain', m->>'origin', m->>'trust', times[l.i]
      from jsonb_array_elements(changes) with ordinality as l(c, i), jsonb_array_elements(l.c->'messages') m
      where (made[l.i]).last_seq is not null;
  end if;
  if has_calls then
    insert into tool_calls (id, tenant_id, run_id, turn_id, step, place, tool_use_id, tool_id, tool_version, name, mode,
        arguments, effect, idempotency_key, recorded_from, status, attempt, output, model_output, is_error, error, output_bytes,
        latency_ms, traceparent, trust, origin, tainted_by, created_at, started_at, finished_at, lease_expires_at, claim_id, asked)
      select (k->>'id')::uuid, tenant, (l.c->>'run_id')::uuid, (k->>'turn_id')::uuid, (k->>'step')::int, (k->>'place')::int, k->>'tool_use_id',
        (k->>'tool_id')::uuid, k->>'tool_version', k->>'name', k->>'mode', k->'arguments', k->>'effect',
        k->>'idempotency_key', (k->>'recorded_from')::uuid, k->>'status', (k->>'attempt')::int, k->'output', nullif(k->'model_output', 'null'),
        (k->>'is_error')::boolean, nullif(k->'error', 'null'), (k->>'output_bytes')::int,
        (k->>'latency_ms')::int, k->>'traceparent', k->>'trust', k->>'origin',
        -- `[1, 2]` as `{1, 2}`: a subquery is set up in every statement, whether there is one or not.
        translate(k->>'tainted_by', '[]', '{}')::int[], now(), (k->>'started_at')::timestamptz, (k->>'finished_at')::timestamptz,
        clock_timestamp() + (k->>'lease_ms')::int * interval '1 ms', (k->>'claim_id')::uuid, k->'asked'
      from jsonb_array_elements(changes) with ordinality as l(c, i), jsonb_array_elements(l.c->'new_calls') k
      where (made[l.i]).last_seq is not null;
  end if;
  -- Those of all runs and those of these, by an index each: the tenant may have a thousand of other runs.
  perform from webhooks w where w.tenant_id = tenant and w.status = 'active' and w.run_id is null
    union all select from webhooks w where w.run_id = any(runs_changed) and w.status = 'active' limit 1;
  has_webhooks := found;

  for i in 1 .. jsonb_array_length(changes) loop
    r := made[i];
    continue when r.last_seq is null;
    c := changes->(i - 1);
    run := c->>'run_id';
    answer := jsonb_build_object('ok', true, 'seq', r.last_seq, 'fence', r.fence, 'status', r.status, 'at', times[i], 'continued', false,
      'claimed_call', null);
    if c ? 'calls' then
      -- A row that is not in the state that the change was made for undoes all of it.
      for n in 0 .. jsonb_array_length(c->'calls') - 1 loop
        x := c->'calls'->n;
        update tool_calls k set
            status = coalesce(x->'set'->>'status', status),
            attempt = coalesce((x->'set'->>'attempt')::int, attempt),
            lease_expires_at = case when x ? 'lease_ms' then clock_timestamp() + (x->>'lease_ms')::int * interval '1 ms' end,
            claim_id = case when x ?| array['lease_ms', 'claim_id'] then (x->>'claim_id')::uuid else claim_id end,
            retry_at = case when x ? 'retry_ms' then clock_timestamp() + (x->>'retry_ms')::numeric * interval '1 ms' end,
            output = case when x->'set' ? 'output' then x->'set'->'output' else output end,
            is_error = coalesce((x->'set'->>'is_error')::boolean, is_error),
            error = case when x->'set' ? 'error' then nullif(x->'set'->'error', 'null') else error end,
            model_output = case when x->'set' ? 'output' then nullif(x->'set'->'model_output', 'null') else model_output end,
            output_bytes = coalesce((x->'set'->>'output_bytes')::int, output_bytes),
            trust = coalesce(x->'set'->>'trust', trust),
            origin = coalesce(x->'set'->>'origin', origin),
            remote = case when x->'set' ? 'remote' then nullif(x->'set'->'remote', 'null') else remote end,
            latency_ms = coalesce((x->'set'->>'latency_ms')::int, latency_ms),
            started_at = coalesce((x->'set'->>'started_at')::timestamptz, started_at),
            finished_at = coalesce((x->'set'->>'finished_at')::timestamptz, finished_at)
          -- By its id: the index by run has as many entries as the run has calls.
          where id = (x->>'id')::uuid and run_id is not distinct from run and x->'from' ? status
            and attempt = coalesce((x->>'attempt')::int, attempt)
            and (not x ? 'claim_call' or retry_at is null or retry_at <= clock_timestamp())
          returning case when x ? 'claim_call' then to_jsonb(k) end into x;
        if not found then raise exception using errcode = 'DR001', message = 'tool call ' || (c->'calls'->n->>'id') || ' has moved on'; end if;
        if x is not null then
          select answer || jsonb_build_object('claimed_call', x || jsonb_build_object('pins', jsonb_build_object(
            'agent_id', q.agent_id, 'agent_version', q.agent_version, 'tools', q.pinned->'tools'))) into answer from runs q where q.id = run;
        end if;
      end loop;
    end if;
    -- What the record of another run answers is copied here: whole outputs do not travel to a driver and back.
    if c ? 'copies_outputs' then
      update tool_calls k set output = o.output, model_output = o.model_output from tool_calls o
        where k.run_id = run and o.id = k.recorded_from
          and k.id in (select (n->>'id')::uuid from jsonb_array_elements(c->'new_calls') n where n ? 'copies_output');
    end if;
    -- Turns change in every step.
    if c ? 'turns' then d := apply_turns(tenant, run, c->'turns'); end if;
    -- The rest is asked for at once: each expression is set up anew in each transaction.
    if c ?| array['rows', 'audit', 'waits', 'close_waits', 'park', 'checkpoint', 'title_of', 'title_if_first', 'learns_from', 'reservations', 'continuation', 'outbox',
        'rate_limiter'] then
      answer := answer || commit_rest(tenant, c, r);
    end if;
    if has_webhooks then
      insert into webhook_deliveries (id, tenant_id, webhook_id, run_id, seq, type, status)
        select gen_random_uuid(), tenant, w.id, run, r.last_seq - (c->'log'->>'count')::int + n, type, 'pending'
        from unnest(string_to_array(c->'log'->>'events', e'\n')) with ordinality as lines(line, n), split_part(line, ' ', 1) as type
          join (select * from webhooks g where g.tenant_id = tenant and g.status = 'active' and g.run_id is null
            union all select * from webhooks o where o.run_id = run and o.status = 'active') w
            on (w.workspace_id is null or w.workspace_id = r.workspace_id) and w.events && array['*', type, split_part(type, '.', 1)];
    end if;
    answers[i] := answer;
  end loop;
  if has_late_claims then
    for i in 1 .. jsonb_array_length(changes) loop
      if answers[i] is null then answers[i] := claim_run(changes->(i - 1)); end if;
    end loop;
  end if;
  return to_jsonb(answers);
end $$;

-- A change as processes of 0.1.0 send it, with its events one by one and turns among the rows, in the form in which commit_runs
-- takes it. What is null in a row stays: it says that a column becomes null. A run that such a process cannot read it gives back to the
-- queue for 5 s by its own clock, without the turn: the run is nobody's for longer, as where it is ahead it would be the first to see it
-- again, and then the sweep sends another job, to a queue that it does not serve.
create or replace function with_log(c jsonb) returns jsonb language sql immutable as $$
  select case when c->'events' = '[]' and c ? 'release' and c->'outbox'->0->'delay_ms' = '5000' and not c->'outbox'->0->'payload' ? 'turnId'
      then c - '{events,rows,release}'::text[]
        || jsonb_build_object('lease_ms', 10000, 'outbox', jsonb_build_array((c->'outbox'->0) - 'id' || jsonb_build_object(
          'delay_ms', 10000, 'queue', 'subtasks', 'payload', (c->'outbox'->0->'payload') || '{"isTurn": true}'))) else c - '{events,rows}'::text[] end
    || coalesce((select jsonb_build_object('log', jsonb_build_object('count', count(*), 'turn_id', min(row_turn),
        'events', string_agg(head_of_event(e, row_turn), e'\n' order by n), 'payload', jsonb_agg(e->'payload' order by n)))
      from (select e, n, min(e->>'turn_id') over () as row_turn from jsonb_array_elements(c->'events') with ordinality as list(e, n)) of_commit
      having count(*) > 0), '{}')
    || case when c->'rows' ? 'turns' then jsonb_build_object('turns', c->'rows'->'turns') else '{}' end
    || case when (c->'rows') - 'turns' <> '{}' then jsonb_build_object('rows', (c->'rows') - 'turns') else '{}' end
$$;

create or replace function row_with_time(x jsonb, moment timestamptz) returns jsonb language sql stable as $$
  select x || coalesce(jsonb_object_agg(part, (
      select coalesce(jsonb_object_agg(k, case when v = '"now"' and k ~ '_(at|since)$' then to_jsonb(moment) else v end), '{}')
      from jsonb_each(x->part) as columns(k, v))), '{}')
    from unnest(array['insert', 'set']) part where jsonb_typeof(x->part) = 'object'
$$;

create or replace function rows_with_time(list jsonb, moment timestamptz) returns jsonb language sql stable as $$
  select coalesce(jsonb_agg(row_with_time(x, moment) order by n), '[]') from jsonb_array_elements(list) with ordinality as listed(x, n)
$$;

-- A change of which each time that is the commit's, among its rows, is this one.
create or replace function with_time(c jsonb, moment timestamptz) returns jsonb language sql stable as $$
  select c || case when c ? 'runs' then jsonb_build_object('runs', row_with_time(c->'runs', moment)) else '{}' end
    || case when c ? 'turns' then jsonb_build_object('turns', rows_with_time(c->'turns', moment)) else '{}' end
    || case when c ? 'rows' then jsonb_build_object('rows', (
        select jsonb_object_agg(projection, rows_with_time(list, moment)) from jsonb_each(c->'rows') as listed(projection, list))) else '{}' end
$$;

create or replace function commit_run(c jsonb) returns jsonb language sql as $$
  select commit_runs(jsonb_build_array(c))->0
$$;

-- The same where nothing may be refused: an error takes back the transaction that it is the last statement of.
create or replace function must_commit_run(c jsonb) returns jsonb language plpgsql as $$
declare
  answer jsonb := commit_run(c);
begin
  if not (answer->>'ok')::boolean then
    raise exception 'the commit of run % was refused: %', c->>'run_id', answer->>'why';
  end if;
  return answer;
end $$;
