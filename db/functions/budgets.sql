create or replace function budget_period_start(period text, at timestamptz) returns date language sql immutable as $$
  select case period when 'total' then date '1970-01-01' else date_trunc(period, at at time zone 'UTC')::date end
$$;

-- What is spent of a budget in its current period, and what is set aside: without the reservation of one call, if given.
-- Reservations of embeddings have a step below 0, and count as none.
create or replace function budget_spending(b budgets, not_run uuid, not_step integer, not_fence integer)
returns table (period_start date, tokens numeric, cost_usd numeric, steps bigint, open_tokens numeric, open_cost_usd numeric, open_steps bigint)
language sql stable as $$
  select s.start, n.tokens + coalesce(u.tokens, 0), n.cost_usd + coalesce(u.cost_usd, 0), n.steps + coalesce(u.steps, 0),
    n.open_tokens, n.open_cost_usd, n.open_steps
  from (select budget_period_start(b.period, clock_timestamp()) as start) s
  left join budget_usage u on u.budget_id = b.id and u.period_start = s.start
  cross join lateral (
    select coalesce(sum(r.tokens) filter (where r.state <> 'open'), 0) as tokens,
      coalesce(sum(r.cost_usd) filter (where r.state <> 'open'), 0) as cost_usd,
      count(*) filter (where r.state <> 'open' and r.step >= 0) as steps,
      coalesce(sum(r.tokens) filter (where r.state = 'open'), 0) as open_tokens,
      coalesce(sum(r.cost_usd) filter (where r.state = 'open'), 0) as open_cost_usd,
      count(*) filter (where r.state = 'open' and r.step >= 0) as open_steps
    from reservations r
    where r.tenant_id = b.tenant_id and not r.rolled_up and r.state <> 'released'
      and r.created_at >= greatest(b.created_at, s.start::timestamp at time zone 'UTC')
      and (b.workspace_id is null or r.workspace_id = b.workspace_id) and (b.agent_id is null or r.agent_id = b.agent_id)
      and (not_run is null or r.run_id <> not_run or r.step <> not_step or r.fence <> not_fence)) n
$$;

-- Every budget that a model call of p falls under, with its standing before that call.
create or replace function budget_standings(p jsonb)
returns table (key text, budget_id uuid, name text, max_tokens bigint, max_cost_usd numeric, max_steps integer, soft_limit numeric,
  on_soft_limit text, tokens numeric, cost_usd numeric, steps bigint, open_tokens numeric, open_cost_usd numeric, open_steps bigint)
language sql stable as $$
  -- The run's own budget, and those of the runs above it, each of which counts whatever is spent below it. Under a root that is
  -- all of its tree, with the retries of the root.
  select l.key, null::uuid, null::text, (l.budget->>'max_tokens')::bigint, (l.budget->>'max_cost_usd')::numeric,
    (l.budget->>'max_steps')::int, (l.budget->>'soft_limit')::numeric, l.budget->>'on_soft_limit',
    n.tokens, n.cost_usd, n.steps, n.open_tokens, n.open_cost_usd, n.open_steps
  from (select 'run' as key, p->'run_budget' as budget, case when p ? 'ancestors' then (p->>'run_id')::uuid end as top
      where p->'run_budget' is not null
    union all
    select 'run:' || (a->>'run_id'), a->'budget', case when place > 1 then (a->>'run_id')::uuid end
      from jsonb_array_elements(p->'ancestors') with ordinality as list(a, place) where a ? 'budget') l
  cross join lateral (
    select coalesce(sum(r.tokens) filter (where r.state <> 'open'), 0) as tokens,
      coalesce(sum(r.cost_usd) filter (where r.state <> 'open'), 0) as cost_usd,
      count(*) filter (where r.state <> 'open' and r.step >= 0) as steps,
      coalesce(sum(r.tokens) filter (where r.state = 'open'), 0) as open_tokens,
      coalesce(sum(r.cost_usd) filter (where r.state = 'open'), 0) as open_cost_usd,
      count(*) filter (where r.state = 'open' and r.step >= 0) as open_steps
    from reservations r
    where r.root_run_id = (p->>'root_run_id')::uuid and r.state <> 'released'
      and (l.top is null or r.run_id = l.top or l.top = any(r.chain))
      and not (r.run_id = (p->>'run_id')::uuid and r.step = (p->>'step')::int and r.fence = (p->>'fence')::int)) n
  union all
  select b.id || ':' || s.period_start, b.id, b.name, b.max_tokens, b.max_cost_usd, null, b.soft_limit, b.on_soft_limit,
    s.tokens, s.cost_usd, s.steps, s.open_tokens, s.open_cost_usd, s.open_steps
  from budgets b
  cross join lateral budget_spending(b, (p->>'run_id')::uuid, (p->>'step')::int, (p->>'fence')::int) s
  where b.tenant_id = (p->>'tenant_id')::uuid and (b.workspace_id is null or b.workspace_id = (p->>'workspace_id')::uuid)
    and (b.agent_id is null or b.agent_id = (p->>'agent_id')::uuid)
  order by 1
$$;

-- A row of budget_standings as it is answered and told of.
create or replace function budget_standing_json(s jsonb) returns jsonb language sql immutable as $$
  select jsonb_build_object('key', s->'key', 'budget_id', s->'budget_id', 'name', s->'name', 'max_tokens', s->'max_tokens',
    'max_cost_usd', s->'max_cost_usd', 'max_steps', s->'max_steps', 'soft_limit', s->'soft_limit', 'on_soft_limit', s->'on_soft_limit',
    'spent', jsonb_build_object('tokens', s->'tokens', 'cost_usd', s->'cost_usd', 'steps', s->'steps'),
    'open', jsonb_build_object('tokens', s->'open_tokens', 'cost_usd', s->'open_cost_usd', 'steps', s->'open_steps'))
$$;

-- Output tokens that a call may have at most where so much is used; null without bound, negative where none is left.
create or replace function budget_room(p jsonb, max_tokens bigint, max_cost_usd numeric, max_steps integer, tokens numeric, cost_usd numeric, steps bigint)
returns numeric language sql immutable as $$
  select least(max_tokens - tokens - (p->>'input')::bigint,
    case when (p->>'output_cost')::numeric > 0
      then floor((max_cost_usd - cost_usd - (p->>'input_cost')::numeric) / ((p->>'output_cost')::numeric / (p->>'output')::numeric))
      when p->>'output_cost' is null and cost_usd >= max_cost_usd then -1 end,
    case when steps >= max_steps and (p->>'step')::int >= 0 then -1 end)
$$;
-- Whether the call whose reservation is committed may be made, and with how much output. Counting every reservation there
-- is after one's own was committed is safe without a lock: of two calls that do not both fit, the later one sees both.
-- Only if that exceeds the budget are concurrent calls serialized by a lock, so that not all of them back off.
create or replace function check_budgets(p jsonb) returns jsonb language plpgsql as $$
declare
  d text;
  s record;
  room numeric;
  granted numeric;
  standings jsonb;
  short text;
  waits boolean;
  locked boolean := false;
begin
  d := set_config('drover.tenant_id', p->>'tenant_id', true);
  loop
    granted := (p->>'output')::numeric;
    standings := '[]';
    short := null;
    waits := true;
    for s in select * from budget_standings(p) loop
      standings := standings || budget_standing_json(to_jsonb(s));
      room := budget_room(p, s.max_tokens, s.max_cost_usd, s.max_steps, s.tokens + s.open_tokens,
        s.cost_usd + s.open_cost_usd, s.steps + s.open_steps);
      granted := least(granted, room);
      if room < (p->>'least')::numeric then
        if budget_room(p, s.max_tokens, s.max_cost_usd, s.max_steps, s.tokens, s.cost_usd, s.steps) < (p->>'least')::numeric then
          short := s.key;
          waits := false;
        else
          short := coalesce(short, s.key);
        end if;
      end if;
    end loop;
    exit when locked or granted >= (p->>'output')::numeric;
    for s in select coalesce(x->>'budget_id', p->>'root_run_id') as name
        from jsonb_array_elements(standings) x order by 1 loop
      perform pg_advisory_xact_lock(hashtextextended('drover:budget:' || s.name, 0));
    end loop;
    locked := true;
  end loop;
  if short is not null then
    update reservations set state = 'released', settled_at = now()
      where run_id = (p->>'run_id')::uuid and step = (p->>'step')::int and fence = (p->>'fence')::int and state = 'open';
    return jsonb_build_object('fits', false, 'waits', waits, 'short', short, 'standings', standings);
  end if;
  if granted < (p->>'output')::numeric then
    update reservations set tokens = (p->>'input')::bigint + granted,
        cost_usd = (p->>'input_cost')::numeric + (p->>'output_cost')::numeric * granted / (p->>'output')::numeric
      where run_id = (p->>'run_id')::uuid and step = (p->>'step')::int and fence = (p->>'fence')::int and state = 'open';
  end if;
  return jsonb_build_object('fits', true, 'output', granted, 'standings', standings);
end $$;
-- Adds settled reservations to the usage of their budgets; answers how many rows. A row counts for the budgets that
-- existed when it was made.
create or replace function roll_up_budgets(tenant uuid, most integer) returns bigint language sql as $$
  with done as (
    update reservations set rolled_up = true where (run_id, step, fence) in (
      select run_id, step, fence from reservations where tenant_id = tenant and not rolled_up and state <> 'open'
      limit most for update skip locked)
    returning *),
  added as (
    insert into budget_usage (budget_id, period_start, tenant_id, tokens, cost_usd, steps)
      select b.id, budget_period_start(b.period, r.created_at), tenant, sum(r.tokens), coalesce(sum(r.cost_usd), 0),
        count(*) filter (where r.step >= 0)
      from done r join budgets b on b.tenant_id = tenant and r.created_at >= b.created_at
        and (b.workspace_id is null or r.workspace_id = b.workspace_id) and (b.agent_id is null or r.agent_id = b.agent_id)
      where r.state <> 'released' group by 1, 2
      on conflict (budget_id, period_start) do update set tokens = budget_usage.tokens + excluded.tokens,
        cost_usd = budget_usage.cost_usd + excluded.cost_usd, steps = budget_usage.steps + excluded.steps)
  select count(*) from done
$$;

-- Settles the reservations that lost drivers have left open, at the amount that was set aside; answers how many rows.
create or replace function settle_lost_reservations(tenant uuid, quiet_ms integer) returns bigint language sql as $$
  with lost as (
    update reservations r set state = 'estimated', settled_at = now() from runs u
      where r.tenant_id = tenant and not r.rolled_up and r.state = 'open' and u.id = r.run_id
        and r.created_at < clock_timestamp() - quiet_ms * interval '1 ms'
        and (u.status in ('completed', 'failed', 'cancelled') or u.fence > r.fence or u.driver_lease_expires_at is null
          or u.driver_lease_expires_at < clock_timestamp())
      returning 1)
  select count(*) from lost
$$;

-- Reservations that disagree with the model calls, and usage that disagrees with the reservations: none, if all is well.
-- Of what there was before the day whole_since, not all reservations may be there any more.
-- Without nested loops: how many events of a kind a log has the planner cannot know, and it would look through all calls for each reservation.
create or replace function budget_drift(tenant uuid, whole_since date) returns table (run_id uuid, budget_id uuid, step integer, what text)
language sql stable set enable_nestloop = off as $$
  select r.run_id, null::uuid, r.step, case when c.run_id is null then 'settled without a model call' else 'settled at another use' end
    from reservations r left join (select l.run_id, l.step, l.tokens_in, l.tokens_out, l.cost_usd from llm_calls l where l.tenant_id = tenant
      union all select o.id, s.step, o.tokens_in, o.tokens_out, o.cost_usd from own_model_calls o cross join (values (0), (-1)) s (step)
        where o.tenant_id = tenant) c
      on c.run_id = r.run_id and c.step = r.step
    where r.tenant_id = tenant and r.state = 'settled' and (c.run_id is null
      or r.tokens <> c.tokens_in + c.tokens_out or r.cost_usd is distinct from c.cost_usd)
  union all
  select c.run_id, null, c.step, 'a model call without a reservation'
    from llm_calls c join runs u on u.id = c.run_id and u.config ? 'budget'
    where c.tenant_id = tenant and c.created_at >= whole_since::timestamp at time zone 'UTC' and not exists (select from reservations r where r.run_id = c.run_id and r.step = c.step
      and r.state in ('settled', 'estimated'))
  union all
  select r.run_id, null, r.step, 'open although the run has ended'
    from reservations r join runs u on u.id = r.run_id and u.status in ('completed', 'failed', 'cancelled')
    where r.tenant_id = tenant and r.state = 'open'
  union all
  select null, b.id, null, 'its usage is not the sum of its reservations'
    from budgets b
    -- The periods that began since then; that of a total with the budget itself.
    cross join lateral (select case b.period when 'day' then whole_since
        when 'month' then (date_trunc('month', whole_since - 1) + interval '1 month')::date
        else case when b.created_at >= whole_since::timestamp at time zone 'UTC' then date '1970-01-01' else 'infinity' end end as start) whole
    where b.tenant_id = tenant
      and (select coalesce(sum(v.tokens), 0) from budget_usage v where v.budget_id = b.id and v.period_start >= whole.start) <> (
        select coalesce(sum(r.tokens), 0) from reservations r where r.tenant_id = tenant and r.rolled_up
          and r.state <> 'released' and r.created_at >= greatest(b.created_at, whole.start::timestamp at time zone 'UTC')
          and (b.workspace_id is null or r.workspace_id = b.workspace_id) and (b.agent_id is null or r.agent_id = b.agent_id))
$$;
