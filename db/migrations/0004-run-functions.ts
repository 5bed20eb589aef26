/**
 * The functions of the hot path: one call, one round trip, one transaction each. They set the tenant themselves, apply
 * the rows and columns they are given and know no rules: what an event means for a row is `core/project.ts`.
 */
import type { Migration } from './index.ts';

const COMMIT = `
create function commit_run(c jsonb) returns jsonb language plpgsql as $$
declare
  r runs;
  t turns;
  k tool_calls;
  d text;
  x jsonb;
  creating boolean := c ? 'create';
  count_new integer := jsonb_array_length(c->'events');
  before_seq bigint;
begin
  d := set_config('drover.tenant_id', c->>'tenant', true);
  if creating then
    r := jsonb_populate_record(null::runs, c->'create');
  else
    select * into r from runs where id = (c->>'run')::uuid for update;
    if not found then return jsonb_build_object('ok', false, 'why', 'missing'); end if;
    if r.fence <> (c->>'fence')::int then return jsonb_build_object('ok', false, 'why', 'fence', 'fence', r.fence); end if;
    if r.last_seq <> (c->>'expect')::bigint then
      return jsonb_build_object('ok', false, 'why', 'behind', 'seq', r.last_seq);
    end if;
  end if;
  before_seq := r.last_seq;

  for x in select jsonb_array_elements(c->'calls') loop
    select * into k from tool_calls where id = (x->>'id')::uuid and run_id = r.id for update;
    if not found or not (x->'from') ? k.status or k.attempt <> coalesce((x->>'attempt')::int, k.attempt) then
      return jsonb_build_object('ok', false, 'why', 'ledger', 'call', x->>'id', 'status', k.status);
    end if;
    k := jsonb_populate_record(k, x->'set');
    if x ? 'lease_ms' then k.lease_expires_at := clock_timestamp() + (x->>'lease_ms')::int * interval '1 ms'; end if;
    if x ? 'retry_ms' then k.retry_at := clock_timestamp() + (x->>'retry_ms')::int * interval '1 ms'; end if;
    update tool_calls set status = k.status, attempt = k.attempt, lease_expires_at = k.lease_expires_at,
      retry_at = k.retry_at, output = k.output, is_error = k.is_error, error = k.error, output_bytes = k.output_bytes,
      latency_ms = k.latency_ms, started_at = k.started_at, finished_at = k.finished_at
      where id = k.id;
  end loop;

  x := c->'runs'->'add';
  r := jsonb_populate_record(r, c->'runs'->'set');
  r.steps := r.steps + coalesce((x->>'steps')::int, 0);
  r.tokens_in := r.tokens_in + coalesce((x->>'tokens_in')::bigint, 0);
  r.tokens_out := r.tokens_out + coalesce((x->>'tokens_out')::bigint, 0);
  if x ? 'cost_usd' then r.cost_usd := r.cost_usd + (x->>'cost_usd')::numeric; end if;
  r.last_seq := r.last_seq + count_new;
  r.updated_at := now();
  if (c->>'bump_fence')::boolean then r.fence := r.fence + 1; end if;
  if c ? 'lease_ms' then
    r.driver_lease_expires_at := clock_timestamp() + (c->>'lease_ms')::int * interval '1 ms';
  elsif (c->>'release')::boolean then
    r.driver_lease_expires_at := null;
  end if;
  if creating then
    if c ? 'thread' then insert into threads select * from jsonb_populate_record(null::threads, c->'thread'); end if;
    insert into runs select r.*;
  else
    update runs set status = r.status, waiting_for = r.waiting_for,
      open_turn_id = r.open_turn_id, turn_count = r.turn_count, stop_reason = r.stop_reason, error = r.error,
      output_ordinal = r.output_ordinal, lineage = r.lineage, lineage_base = r.lineage_base, length = r.length,
      steps = r.steps, tokens_in = r.tokens_in, tokens_out = r.tokens_out, cost_usd = r.cost_usd,
      started_at = r.started_at, completed_at = r.completed_at, updated_at = r.updated_at, last_seq = r.last_seq,
      fence = r.fence, driver_lease_expires_at = r.driver_lease_expires_at
      where id = r.id;
  end if;

  insert into run_events (tenant_id, workspace_id, run_id, seq, turn_id, step, type, schema_version, actor, payload, occurred_at)
    select r.tenant_id, r.workspace_id, r.id, before_seq + i, (e->>'turn_id')::uuid, (e->>'step')::int, e->>'type',
      (e->>'schema_version')::int, e->>'actor', e->'payload', now()
    from jsonb_array_elements(c->'events') with ordinality as list(e, i);
  if c ? 'messages' then
    insert into messages (tenant_id, lineage, ordinal, run_id, role, content, chain, created_at)
      select r.tenant_id, r.lineage, (m->>'ordinal')::int, r.id, m->>'role', m->'content', m->>'chain', now()
      from jsonb_array_elements(c->'messages') m;
  end if;
  if c ? 'new_calls' then
    insert into tool_calls select * from jsonb_populate_recordset(null::tool_calls, c->'new_calls');
  end if;
  if c ? 'llm_calls' then
    insert into llm_calls select * from jsonb_populate_recordset(null::llm_calls, c->'llm_calls');
  end if;
  for x in select jsonb_array_elements(c->'turns') loop
    if x ? 'insert' then
      insert into turns select * from jsonb_populate_record(null::turns, x->'insert');
      continue when not x ? 'set';
    end if;
    select * into t from turns where id = (x->>'id')::uuid;
    t := jsonb_populate_record(t, x->'set');
    update turns set status = t.status, output_ordinal = t.output_ordinal, stop_reason = t.stop_reason, error = t.error,
      checkpoint_id = t.checkpoint_id, completed_at = t.completed_at,
      steps = steps + coalesce((x->'add'->>'steps')::int, 0),
      tokens_in = tokens_in + coalesce((x->'add'->>'tokens_in')::bigint, 0),
      tokens_out = tokens_out + coalesce((x->'add'->>'tokens_out')::bigint, 0),
      cost_usd = case when x->'add' ? 'cost_usd' then cost_usd + (x->'add'->>'cost_usd')::numeric else cost_usd end
      where id = t.id;
  end loop;
  if c ? 'checkpoint' then
    insert into checkpoints select * from jsonb_populate_record(null::checkpoints, c->'checkpoint');
  end if;
  if c ? 'outbox' then
    insert into outbox (id, tenant_id, queue, job_id, payload, children)
      select (o->>'id')::uuid, r.tenant_id, o->>'queue', r.id || '-' || r.last_seq || '-' || r.fence,
        (o->'payload') || jsonb_build_object('seq', r.last_seq), o->'children'
      from jsonb_array_elements(c->'outbox') o;
  end if;
  return jsonb_build_object('ok', true, 'seq', r.last_seq, 'fence', r.fence, 'status', r.status);
end $$;
`;

const LOAD = `
-- The messages of a run with the outcomes that their tool results refer to, from the lineages it stands on.
create function run_messages(r runs) returns jsonb language plpgsql stable as $$
declare
  segment jsonb;
  start_at integer := 0;
  found_messages jsonb := '[]';
  part jsonb;
begin
  for segment in select jsonb_array_elements(r.lineage_base || jsonb_build_array(
      jsonb_build_object('lineage', r.lineage, 'length', r.length))) loop
    select jsonb_agg(jsonb_build_object('ordinal', m.ordinal, 'role', m.role, 'content', m.content, 'chain', m.chain,
        'outcomes', (select jsonb_object_agg(k.id, jsonb_build_object('status', k.status, 'output', k.output,
            'is_error', k.is_error)) from tool_calls k where k.id in (
              select (b->>'tool_call_id')::uuid from jsonb_array_elements(m.content) b where b ? 'tool_call_id')))
        order by m.ordinal) into part
      from messages m
      where m.lineage = (segment->>'lineage')::uuid and m.ordinal >= start_at and m.ordinal < (segment->>'length')::int;
    found_messages := found_messages || coalesce(part, '[]');
    start_at := (segment->>'length')::int;
  end loop;
  return found_messages;
end $$;

-- Claims a run for a driver and answers all it needs to go on: the row, the newest usable checkpoint, the later events,
-- the messages. With claim = false it only reads, for the driver that holds the run already.
create function claim_run(p jsonb) returns jsonb language plpgsql as $$
declare
  r runs;
  k checkpoints;
  d text;
  events jsonb;
begin
  d := set_config('drover.tenant_id', p->>'tenant', true);
  if (p->>'claim')::boolean then
    update runs set fence = fence + 1,
        driver_lease_expires_at = clock_timestamp() + (p->>'lease_ms')::int * interval '1 ms'
      where id = (p->>'run')::uuid and status not in ('completed', 'failed', 'cancelled')
        and (driver_lease_expires_at is null or driver_lease_expires_at < clock_timestamp())
        and last_seq >= (p->>'seq')::bigint
      returning * into r;
    if r.id is null then
      select * into r from runs where id = (p->>'run')::uuid;
      return jsonb_build_object('ok', false, 'seq', r.last_seq, 'why', case when r.id is null then 'missing'
        when r.last_seq < (p->>'seq')::bigint then 'beyond'
        when r.status in ('completed', 'failed', 'cancelled') then 'finished' else 'held' end);
    end if;
  else
    select * into r from runs where id = (p->>'run')::uuid;
    if r.id is null then return jsonb_build_object('ok', false, 'why', 'missing'); end if;
  end if;
  select * into k from checkpoints where run_id = r.id and seq < coalesce((p->>'before_checkpoint')::bigint, 9e15::bigint)
    order by seq desc limit 1;
  select jsonb_agg(jsonb_build_object('seq', e.seq, 'type', e.type, 'schema_version', e.schema_version,
      'turn_id', e.turn_id, 'step', e.step, 'actor', e.actor, 'payload', e.payload, 'occurred_at', e.occurred_at)
      order by e.seq) into events
    from run_events e where e.run_id = r.id and e.seq > coalesce(k.seq, 0);
  return jsonb_build_object('ok', true, 'run', to_jsonb(r), 'checkpoint', case when k.run_id is not null then to_jsonb(k) end, 'events', coalesce(events, '[]'),
    'messages', run_messages(r));
end $$;

-- Renewing answers whether the driver still holds the run.
create function renew_run_lease(tenant text, run uuid, held_fence integer, lease_ms integer) returns boolean
language plpgsql as $$
declare d text;
begin
  d := set_config('drover.tenant_id', tenant, true);
  update runs set driver_lease_expires_at = clock_timestamp() + lease_ms * interval '1 ms'
    where id = run and fence = held_fence and driver_lease_expires_at is not null;
  return found;
end $$;

create function renew_call_lease(tenant text, call uuid, held_attempt integer, lease_ms integer) returns boolean
language plpgsql as $$
declare d text;
begin
  d := set_config('drover.tenant_id', tenant, true);
  update tool_calls set lease_expires_at = clock_timestamp() + lease_ms * interval '1 ms'
    where id = call and attempt = held_attempt and status = 'running';
  return found;
end $$;

-- Whoever holds the lock of an embedded data directory knows that every earlier holder is dead.
create function void_leases() returns void
language plpgsql security definer set search_path from current as $$
begin
  update runs set driver_lease_expires_at = null where driver_lease_expires_at is not null;
  update tool_calls set lease_expires_at = now() where status = 'running' and lease_expires_at > now();
end $$;
`;

export const runFunctions: Migration = {
  name: '0004-run-functions',
  up: async (knex) => {
    // Knex would take jsonb's operator ? for a binding.
    for (const sql of [COMMIT, LOAD]) await knex.raw(sql.replaceAll('?', '\\?'));
  },
};
