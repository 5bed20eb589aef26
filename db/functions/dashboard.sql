-- What a run has come to: itself by its status, its answers by model, its calls by tool. Turns that it took over from another run are that one's.
create or replace function usage_of_run(r runs) returns table (kind text, name text, count bigint, failed bigint, turns bigint,
  steps bigint, tokens_in bigint, tokens_out bigint, cost_usd numeric, duration_ms bigint, unpriced bigint) language sql stable as $$
  select 'run', r.status::text, 1::bigint, case when r.status = 'failed' then 1::bigint else 0::bigint end,
    (select count(*) from turns t where t.run_id = r.id), r.steps::bigint,
    r.tokens_in, r.tokens_out, coalesce(r.cost_usd, 0),
    coalesce((extract(epoch from r.completed_at - coalesce(r.started_at, r.created_at)) * 1000)::bigint, 0),
    case when r.cost_usd is null then 1::bigint else 0::bigint end
  union all
  -- Builds before took whatever name a server gave; the key of a sum has no room for thousands of characters.
  select 'model', left((e.payload->>'provider') || '/' || (e.payload->>'model'), 300), count(*) filter (where e.type = 'model.responded'), 0, 0, 0,
    sum((u->>'input')::bigint + (u->>'cache_read')::bigint + (u->>'cache_write_5m')::bigint + (u->>'cache_write_1h')::bigint)::bigint,
    sum((u->>'output')::bigint)::bigint, coalesce(sum((e.payload->>'cost_usd')::numeric), 0), coalesce(sum((e.payload->>'latency_ms')::bigint), 0)::bigint,
    count(*) filter (where e.payload->>'cost_usd' is null)
  from run_events e cross join lateral (select e.payload->'usage' as u) used
  -- Attempts that broke off count as none, with what they have spent.
  where e.run_id = r.id and coalesce(e.payload->'recorded', 'false') <> 'true'
    and (e.type = 'model.responded' or e.type in ('model.retried', 'model.failed') and e.payload->'usage' is not null)
  group by 2
  union all
  select 'tool', k.name, count(*), count(*) filter (where k.status = 'failed' or k.is_error), 0, 0, 0, 0, 0, coalesce(sum(k.latency_ms), 0)::bigint, 0
  from tool_calls k where k.run_id = r.id and k.tool_id is not null
  group by 2
$$;

-- Adds runs that have ended to the sums; answers how many. A run is added once: it is marked in the same statement. Calls that a
-- worker still makes settle after the end of their run, which waits for them for an hour at most; the driver of a turn that was
-- broken off tells what its answer has cost once it hears of that, some leases later at most.
create or replace function roll_up_usage(tenant uuid, most integer) returns bigint language sql as $$
  with done as (
    update runs set rolled_up = true where id in (
      select r.id from runs r where r.tenant_id = tenant and not r.rolled_up and r.status in ('completed', 'failed', 'cancelled')
        and (r.updated_at < now() - interval '1 hour'
          or not exists (select from tool_calls k where k.run_id = r.id and k.mode = 'queued' and k.status = 'running')
            and not exists (select from turns t where t.run_id = r.id and t.status in ('failed', 'cancelled')
              and t.completed_at > now() - interval '2 minutes'))
      order by r.id limit most for update skip locked)
    returning *),
  added as (
    insert into usage_daily (tenant_id, workspace_id, agent_id, day, kind, name, count, failed, turns, steps, tokens_in, tokens_out, cost_usd, duration_ms, unpriced)
      select tenant, d.workspace_id, d.agent_id, (d.created_at at time zone 'UTC')::date, u.kind, u.name, sum(u.count), sum(u.failed),
        sum(u.turns), sum(u.steps), sum(u.tokens_in), sum(u.tokens_out), sum(u.cost_usd), sum(u.duration_ms), sum(u.unpriced)
      from done d join runs r on r.id = d.id cross join lateral usage_of_run(r) u
      group by 2, 3, 4, 5, 6
      on conflict (tenant_id, workspace_id, day, agent_id, kind, name) do update set count = usage_daily.count + excluded.count,
        failed = usage_daily.failed + excluded.failed, turns = usage_daily.turns + excluded.turns, steps = usage_daily.steps + excluded.steps,
        tokens_in = usage_daily.tokens_in + excluded.tokens_in, tokens_out = usage_daily.tokens_out + excluded.tokens_out,
        cost_usd = usage_daily.cost_usd + excluded.cost_usd, duration_ms = usage_daily.duration_ms + excluded.duration_ms,
        unpriced = usage_daily.unpriced + excluded.unpriced)
  select count(*) from done
$$;

-- The sums of a workspace's runs that began on these days, by what `by` says: those that are added up, and the others as they are now.
create or replace function read_usage(p jsonb) returns table (key text, kind text, name text, count bigint, failed bigint, turns bigint,
  steps bigint, tokens_in bigint, tokens_out bigint, cost_usd numeric, duration_ms bigint, unpriced bigint) language sql stable as $$
  select case p->>'by' when 'agent' then s.agent_id::text when 'day' then s.day::text else '' end, s.kind, s.name, sum(s.count)::bigint,
    sum(s.failed)::bigint, sum(s.turns)::bigint, sum(s.steps)::bigint, sum(s.tokens_in)::bigint, sum(s.tokens_out)::bigint,
    sum(s.cost_usd), sum(s.duration_ms)::bigint, sum(s.unpriced)::bigint
  from (
    select d.agent_id, d.day, d.kind, d.name, d.count, d.failed, d.turns, d.steps, d.tokens_in, d.tokens_out, d.cost_usd, d.duration_ms, d.unpriced
    from usage_daily d
    where d.tenant_id = (p->>'tenant_id')::uuid and d.workspace_id = (p->>'workspace_id')::uuid
      and d.day >= (p->>'from')::date and d.day < (p->>'to')::date
      and (p->>'agent_id' is null or d.agent_id = (p->>'agent_id')::uuid)
    union all
    select r.agent_id, (r.created_at at time zone 'UTC')::date, u.kind, u.name, u.count, u.failed, u.turns, u.steps, u.tokens_in,
      u.tokens_out, u.cost_usd, u.duration_ms, u.unpriced
    from runs r cross join lateral usage_of_run(r) u
    where r.tenant_id = (p->>'tenant_id')::uuid and not r.rolled_up and r.workspace_id = (p->>'workspace_id')::uuid
      and r.created_at >= (p->>'from')::date::timestamp at time zone 'UTC' and r.created_at < (p->>'to')::date::timestamp at time zone 'UTC'
      and (p->>'agent_id' is null or r.agent_id = (p->>'agent_id')::uuid)) s
  where p->'kinds' ? s.kind
  group by 1, 2, 3 order by 1, 2, 3
$$;
