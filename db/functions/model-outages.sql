-- Whether a run may ask a model: `open`, as the `probe` for all that wait, or not while it is `away` or its rate limiter backs
-- off. Of two that could be the probe at once one is, alone for probe_ms: a request that nobody answers must not keep the others
-- waiting. A run whose worker has died in the middle takes its own probe up again. `probed`: the outages it asks about, by name, and
-- since when they last, by which its outcome is told however late it comes.
-- An outage that one run alone has met (`only` in its error) may be its request's: it is none for the others. `met`: what another
-- run has met so, and this one's answer ends.
create or replace function enter_model(outage text, rate_limiter text, run uuid, probe_ms integer) returns jsonb language plpgsql as $$
declare
  o model_outages;
  now_at timestamptz := clock_timestamp();
  closed timestamptz := (select closed_until from model_rates where name = rate_limiter);
begin
  if closed > now_at then
    return jsonb_build_object('kind', 'throttled', 'ms', ceil(extract(epoch from closed - now_at) * 1000)::int);
  end if;
  update model_outages set probing_run = run, probing_until = now_at + probe_ms * interval '1 ms'
    where name = outage and (probing_run = run or next_at <= now_at and (probing_until is null or probing_until <= now_at)
      and (error->>'only' is null or error->>'only' = run::text))
    returning * into o;
  if found then return jsonb_build_object('kind', 'probe', 'at', now_at, 'probed', jsonb_build_object(outage, o.since)); end if;
  select * into o from model_outages where name = outage;
  if not found then return jsonb_build_object('kind', 'open', 'at', now_at); end if;
  if o.error->>'only' <> run::text then
    return jsonb_build_object('kind', 'open', 'at', now_at, 'met', jsonb_build_object(outage, o.since));
  end if;
  return jsonb_build_object('kind', 'away', 'at', now_at, 'next_at', o.next_at, 'error', o.error - 'only');
end $$;

-- Notes that a model gave no answer, and when it is asked next: after 1, 2, 4, … seconds, or as late as the provider says,
-- most_ms at most. Of an outage that is known already only the probe says anything new, or a second run that meets it: it begins for all then.
-- What one run alone has met and has not asked about for a minute after its time is over: it waits no more.
-- Calls of Drover's own are of one each: what one of them has met is not met again by all that follow.
create or replace function note_model_outage(outage text, run uuid, problem jsonb, least_ms integer, most_ms integer)
returns jsonb language plpgsql as $$
declare
  o model_outages;
  now_at timestamptz := clock_timestamp();
  first_problem jsonb := problem || case when outage like '%#own' then '{}' else jsonb_build_object('only', run) end;
begin
  delete from model_outages m where m.name = outage and m.error->>'only' <> run::text
    and m.next_at < now_at - interval '1 minute' and coalesce(m.probing_until, m.next_at) < now_at;
  insert into model_outages as m (name, since, failures, next_at, error)
    values (outage, now_at, 1, now_at + model_outage_pause(1, least_ms, most_ms), first_problem)
    on conflict (name) do update set probing_run = null, probing_until = null,
      failures = case when m.error->>'only' <> run::text then 1 else m.failures + 1 end,
      error = case when m.error->>'only' = run::text then excluded.error else problem end,
      next_at = now_at + model_outage_pause(case when m.error->>'only' <> run::text then 1 else m.failures + 1 end, least_ms, most_ms)
    where m.probing_run = run or m.error->>'only' <> run::text;
  select * into o from model_outages where name = outage;
  return jsonb_build_object('at', now_at, 'next_at', coalesce(o.next_at, now_at));
end $$;

-- Notes that a probe gave no answer, also where another one asks by now: that one goes on alone. Null if the outage is over: others
-- were answered meanwhile, and the failure says nothing of them.
create or replace function note_probe_failure(outage text, outage_since timestamptz, run uuid, problem jsonb, least_ms integer, most_ms integer)
returns jsonb language sql as $$
  update model_outages m set failures = m.failures + 1,
    next_at = greatest(m.next_at, clock_timestamp() + model_outage_pause(m.failures + 1, least_ms, most_ms)),
    error = problem || case when m.error ? 'only' then jsonb_build_object('only', m.error->'only') else '{}' end,
    probing_until = case when m.probing_run = run then null else m.probing_until end,
    probing_run = nullif(m.probing_run, run)
    where m.name = outage and m.since = outage_since
    returning jsonb_build_object('at', clock_timestamp(), 'next_at', m.next_at)
$$;

create or replace function model_outage_pause(failures integer, least_ms integer, most_ms integer) returns interval language sql volatile as $$
  select least(most_ms, greatest(least_ms, 1000 * 2 ^ least(failures - 1, 20) * (0.75 + random() / 2))) * interval '1 ms'
$$;

-- A run that was to ask for all does not: another one may at once.
create or replace function leave_probes(run uuid) returns void language sql as $$
  update model_outages set probing_run = null, probing_until = null where probing_run = run
$$;

-- The run that asks for all was answered: the outages that it asked about are over, and all that wait for their end go on.
-- end_probed_outages also ends those about which another run asks by now. The release before calls the other one.
create or replace function end_model_outages(run uuid) returns void language sql as $$
  delete from model_outages where probing_run = run
$$;

create or replace function end_probed_outages(run uuid, probed jsonb) returns void language sql as $$
  delete from model_outages o where o.probing_run = run or o.since = (probed->>o.name)::timestamptz
$$;

-- The same for a call that Drover makes for itself. Those keep each other waiting, but no run: their outages have names of their own.
create or replace function enter_own_call(outage text, rate_limiter text, asker uuid, probe_ms integer) returns jsonb language plpgsql as $$
declare
  of_all jsonb := enter_model(outage, rate_limiter, asker, probe_ms);
  of_own jsonb;
begin
  if of_all->>'kind' in ('away', 'throttled') then return of_all; end if;
  of_own := enter_model(outage || '#own', rate_limiter, asker, probe_ms);
  if of_own->>'kind' = 'open' then return of_all; end if;
  if of_own->>'kind' = 'probe' then
    return of_own || jsonb_build_object('probed', coalesce(of_all->'probed', '{}') || (of_own->'probed'));
  end if;
  if of_all->>'kind' = 'probe' then perform leave_probes(asker); end if;
  return of_own;
end $$;
