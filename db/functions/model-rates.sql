-- How long nobody is to ask a model yet, in ms; more than 0, too, while its provider is away: enter_model then says more.
create or replace function model_back_off_ms(rate_limiter text) returns integer language plpgsql stable as $$
begin
  -- Not in SQL: such a function is planned anew in each commit that asks a model, which takes longer than the look.
  return greatest(
    (select ceil(greatest(0, extract(epoch from closed_until - clock_timestamp())) * 1000)::int from model_rates where name = rate_limiter),
    (select greatest(1000, ceil(extract(epoch from next_at - clock_timestamp()) * 1000)::int) from model_outages where name = rate_limiter), 0);
end $$;

create or replace function back_off_model_rate(rate_limiter text, ms integer) returns void language sql as $$
  insert into model_rates (name, closed_until, requests_until, tokens_until)
    values (rate_limiter, clock_timestamp() + ms * interval '1 ms', clock_timestamp(), clock_timestamp())
    on conflict (name) do update set closed_until = greatest(model_rates.closed_until, excluded.closed_until)
$$;

-- Takes a request and its tokens out of what a minute permits, or answers in how many ms there will be enough: a
-- minute's worth may go at once, then it fills up steadily. A request above a whole minute's tokens takes them all.
create or replace function acquire_model_rate(rate_limiter text, tokens integer, requests_a_minute integer, tokens_a_minute integer)
returns integer language plpgsql as $$
declare
  r model_rates;
  now_at timestamptz;
  wait interval;
  d text;
begin
  -- What a crash of the database forgets here costs a request too many, not a result.
  d := set_config('synchronous_commit', 'off', true);
  insert into model_rates (name, closed_until, requests_until, tokens_until)
    values (rate_limiter, clock_timestamp(), clock_timestamp(), clock_timestamp()) on conflict (name) do nothing;
  select * into r from model_rates where name = rate_limiter for update;
  now_at := clock_timestamp();
  r.requests_until := greatest(r.requests_until, now_at) + coalesce(interval '1 minute' / requests_a_minute, interval '0');
  r.tokens_until := greatest(r.tokens_until, now_at)
    + coalesce(interval '1 minute' * least(tokens, tokens_a_minute) / tokens_a_minute, interval '0');
  wait := greatest(r.closed_until - now_at, r.requests_until - now_at - interval '1 minute',
    r.tokens_until - now_at - interval '1 minute');
  if wait > interval '0' then return ceil(extract(epoch from wait) * 1000)::int; end if;
  update model_rates m set requests_until = r.requests_until, tokens_until = r.tokens_until where m.name = rate_limiter;
  return 0;
end $$;

-- Takes what an answer has used beyond what its request took.
create or replace function charge_model_rate(rate_limiter text, tokens integer, tokens_a_minute integer) returns void language sql as $$
  update model_rates set tokens_until = greatest(tokens_until, clock_timestamp()) + interval '1 minute' * tokens / tokens_a_minute
    where name = rate_limiter
$$;
