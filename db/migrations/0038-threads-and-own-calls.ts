/** Threads with what people see of them, and the model calls that Drover makes for itself. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const threadsAndOwnCalls: Migration = {
  name: '0038-threads-and-own-calls',
  up: async (knex) => {
    await knex.raw(`
      alter table threads add column title text, add column extras jsonb not null default '{}',
        add column updated_at timestamptz;
      create index threads_page on threads (workspace_id, id desc);
      create index threads_by_agent on threads (agent_id, id desc);

      -- Threads whose first turn has ended and that have no title yet. Not a column of threads: the commit of a turn
      -- holds its run's row and must not wait for the thread's.
      create table due_titles (
        thread_id uuid primary key,
        tenant_id uuid not null,
        due_at timestamptz not null,
        attempts integer not null default 0
      );
      create index due_titles_due on due_titles (due_at);
      ${tenantTable('due_titles')}
      create policy maintenance_take_due_titles on due_titles to drover_maintenance using (true) with check (true);
      grant select, update on due_titles to drover_maintenance;

      -- Each has a row of reservations under its id: budgets count it like any other call.
      create table own_model_calls (
        id uuid primary key,
        tenant_id uuid not null,
        workspace_id uuid not null,
        agent_id uuid,
        thread_id uuid,
        run_id uuid,
        purpose text not null,
        provider text not null,
        model text not null,
        state text not null check (state in ('open', 'settled', 'estimated', 'released')),
        tokens_in bigint not null default 0,
        tokens_out bigint not null default 0,
        usage jsonb,
        cost_usd numeric,
        error_code text,
        created_at timestamptz not null default clock_timestamp(),
        settled_at timestamptz
      );
      create index own_model_calls_page on own_model_calls (tenant_id, created_at desc);
      create index own_model_calls_open on own_model_calls (tenant_id, created_at) where state = 'open';
      create index own_model_calls_by_thread on own_model_calls (thread_id) where thread_id is not null;
      create index own_model_calls_age on own_model_calls (created_at);
      ${tenantTable('own_model_calls')}
      create policy maintenance_forget_own_calls on own_model_calls to drover_maintenance using (true) with check (true);
      grant select, delete on own_model_calls to drover_maintenance;

      -- Answers that Drover asked for itself are no steps of a run.
      create or replace view llm_calls with (security_invoker = true) as
        select e.tenant_id, e.run_id, e.seq, e.turn_id, e.step, e.payload->>'provider' as provider, e.payload->>'model' as model,
          r.lineage, (e.payload->>'ordinal')::int as length, e.payload->>'stop_reason' as stop_reason, spent.tokens_in,
          spent.tokens_out, e.payload->'usage' as usage, coalesce((e.payload->>'recorded')::boolean, false) as recorded,
          (e.payload->>'cost_usd')::numeric as cost_usd, (e.payload->>'latency_ms')::int as latency_ms,
          e.occurred_at as created_at
        from run_events e join runs r on r.id = e.run_id,
          lateral (select case when e.payload->'recorded' = 'true' then '{}' else e.payload->'usage' end as used) u,
          lateral (select coalesce((used->>'input')::bigint, 0) + coalesce((used->>'cache_read')::bigint, 0)
              + coalesce((used->>'cache_write_5m')::bigint, 0) + coalesce((used->>'cache_write_1h')::bigint, 0) as tokens_in,
            coalesce((used->>'output')::bigint, 0) as tokens_out) spent
        where e.type = 'model.responded' and e.payload->'tool' is null;
    `);
  },
};
