/**
 * The way to each model of each credential, for all workers: shut for a while after the provider has said so, and rationed
 * where the installation knows its rates. Nothing of a tenant's is in here. It is not in Redis, since it would be lost
 * with it, and every worker would learn anew what all of them together may ask for.
 */
import type { Migration } from './index.ts';

export const modelGates: Migration = {
  name: '0012-model-gates',
  up: async (knex) => {
    await knex.raw(`
      create table model_gates (
        name text primary key,
        closed_until timestamptz not null,
        -- When all that was let through will have been worked off at the permitted rate.
        requests_until timestamptz not null,
        tokens_until timestamptz not null
      );
      alter table model_gates enable row level security;
      alter table model_gates force row level security;
      create policy one_for_all on model_gates to drover_app using (true) with check (true);
      grant select, insert, update on model_gates to drover_app;

      -- How long a gate is still shut, in ms.
      create function model_gate_ms(gate text) returns integer language sql stable as $$
        select coalesce(max(ceil(greatest(0, extract(epoch from closed_until - clock_timestamp())) * 1000))::int, 0)
        from model_gates where name = gate
      $$;

      create function shut_model_gate(gate text, ms integer) returns void language sql as $$
        insert into model_gates values (gate, clock_timestamp() + ms * interval '1 ms', clock_timestamp(), clock_timestamp())
          on conflict (name) do update set closed_until = greatest(model_gates.closed_until, excluded.closed_until)
      $$;

      -- Takes a request and its tokens out of what a minute permits, or answers in how many ms there will be enough: a
      -- minute's worth may go at once, then it fills up steadily. A request above a whole minute's tokens takes them all.
      create function pass_model_gate(gate text, tokens integer, requests_a_minute integer, tokens_a_minute integer)
      returns integer language plpgsql as $$
      declare
        g model_gates;
        now_at timestamptz;
        wait interval;
        d text;
      begin
        -- What a crash of the database forgets here costs a request too many, not a result.
        d := set_config('synchronous_commit', 'off', true);
        insert into model_gates values (gate, clock_timestamp(), clock_timestamp(), clock_timestamp()) on conflict (name) do nothing;
        select * into g from model_gates where name = gate for update;
        now_at := clock_timestamp();
        g.requests_until := greatest(g.requests_until, now_at) + coalesce(interval '1 minute' / requests_a_minute, interval '0');
        g.tokens_until := greatest(g.tokens_until, now_at)
          + coalesce(interval '1 minute' * least(tokens, tokens_a_minute) / tokens_a_minute, interval '0');
        wait := greatest(g.closed_until - now_at, g.requests_until - now_at - interval '1 minute',
          g.tokens_until - now_at - interval '1 minute');
        if wait > interval '0' then return ceil(extract(epoch from wait) * 1000)::int; end if;
        update model_gates m set requests_until = g.requests_until, tokens_until = g.tokens_until where m.name = gate;
        return 0;
      end $$;

      -- Takes what an answer has used beyond what its request took.
      create function charge_model_gate(gate text, tokens integer, tokens_a_minute integer) returns void language sql as $$
        update model_gates set tokens_until = greatest(tokens_until, clock_timestamp()) + interval '1 minute' * tokens / tokens_a_minute
          where name = gate
      $$;
    `);
  },
};
