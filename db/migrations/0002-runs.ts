/**
 * The truth (run_events, messages, tool_calls), what lies beside it (checkpoints, outbox) and the projections
 * (threads, runs, turns). What is only inserted is partitioned by a UUIDv7; what is updated is not: Postgres
 * plans each UPDATE of a partitioned table anew. No foreign keys here: `commit_run` is the only writer.
 */
import type { Migration } from './migration.ts';

export const runs: Migration = {
  name: '0002-runs',
  up: async (knex) => {
    await knex.raw(`
      -- Text with a check, as domains: Postgres reads a table's own check constraints anew for every statement, which
      -- cost a fifth of a commit; a domain's are read once per connection.
      create domain run_kind as text check (value in ('agent', 'workflow'));
      create domain run_status as text check (value in ('created', 'initializing', 'planning', 'executing',
        'awaiting_tool', 'awaiting_human', 'reflecting', 'completed', 'failed', 'cancelled'));
      create domain turn_status as text check (value in ('running', 'complete', 'awaiting_tool', 'awaiting_human',
        'failed', 'cancelled'));
      create domain call_mode as text check (value in ('cheap', 'inline', 'queued', 'wait'));
      create domain call_status as text check (value in ('proposed', 'denied', 'awaiting_approval', 'pending', 'running',
        'succeeded', 'failed', 'unknown'));
      create domain tool_effect as text check (value in ('read_only', 'idempotent', 'unknown'));
      create domain message_role as text check (value in ('user', 'assistant'));
      create domain checkpoint_trigger as text check (value in ('turn_complete', 'tool_result', 'manual'));

      create table threads (
        id uuid primary key,
        tenant_id uuid not null,
        workspace_id uuid not null,
        agent_id uuid not null,
        created_at timestamptz not null
      );

      create table runs (
        id uuid primary key,
        tenant_id uuid not null,
        workspace_id uuid not null,
        agent_id uuid not null,
        agent_version text not null,
        thread_id uuid not null,
        kind run_kind not null,
        status run_status not null,
        waiting_for jsonb,
        idle_since timestamptz,
        open_turn_id uuid,
        turn_count integer not null,
        stop_reason text,
        error jsonb,
        output_ordinal integer,
        config jsonb not null,
        pinned jsonb not null,
        keep_open boolean not null,
        lineage uuid not null,
        lineage_base jsonb not null,
        base_length integer not null,
        length integer not null,
        steps integer not null,
        tokens_in bigint not null,
        tokens_out bigint not null,
        cost_usd numeric,
        parent_run_id uuid,
        root_run_id uuid,
        parent_task_id uuid,
        depth integer not null,
        forked_from_run_id uuid,
        forked_at_seq bigint,
        retried_from uuid,
        traceparent text,
        created_at timestamptz not null,
        started_at timestamptz,
        completed_at timestamptz,
        updated_at timestamptz not null,
        -- operational, not projected:
        last_seq bigint not null,
        fence integer not null,
        checkpoint_seq bigint,
        driver_lease_expires_at timestamptz,
        -- Its driver has left it in the middle of a turn, and nothing has come for it since.
        rests boolean not null
      );
      create index runs_page on runs (tenant_id, id desc);
      create index runs_by_status on runs (tenant_id, status, id desc);
      create index runs_by_agent on runs (agent_id, id desc);
      create index runs_by_thread on runs (thread_id, id desc);
      create unique index runs_one_unfinished on runs (thread_id)
        where status not in ('completed', 'failed', 'cancelled') and parent_run_id is null;
      -- What reconciliation looks at, so that runs which wait cost it nothing. No column of it changes in the middle of a
      -- turn, when updates of a run touch no index.
      create index runs_to_drive on runs (id) where open_turn_id is not null and not rests;
      create index runs_idle on runs (idle_since) where idle_since is not null;

      create table turns (
        id uuid primary key,
        tenant_id uuid not null,
        run_id uuid not null,
        number integer not null,
        status turn_status not null,
        input jsonb not null,
        output_ordinal integer,
        stop_reason text,
        error jsonb,
        checkpoint_id uuid,
        steps integer not null,
        tokens_in bigint not null,
        tokens_out bigint not null,
        cost_usd numeric,
        created_at timestamptz not null,
        completed_at timestamptz
      );
      create unique index turns_by_run on turns (run_id, number);

      create table tool_calls (
        id uuid primary key,
        tenant_id uuid not null,
        run_id uuid not null,
        turn_id uuid not null,
        step integer not null,
        place integer not null,
        tool_use_id text not null,
        tool_id uuid,
        tool_version text,
        name text not null,
        mode call_mode not null,
        arguments jsonb not null,
        effect tool_effect not null,
        idempotency_key text not null,
        recorded_from uuid,
        status call_status not null,
        attempt integer not null,
        lease_expires_at timestamptz,
        retry_at timestamptz,
        output jsonb,
        is_error boolean,
        error jsonb,
        output_bytes integer,
        latency_ms integer,
        traceparent text,
        created_at timestamptz not null,
        started_at timestamptz,
        finished_at timestamptz
      );
      -- The idempotency key is derived from run, step and place, so this makes it unique too.
      create unique index tool_calls_by_run on tool_calls (run_id, step, place);
      -- Neither calls that a driver makes itself nor those that wait for somebody: there may be many of them.
      create index tool_calls_queued on tool_calls (run_id) where mode = 'queued' and status in ('pending', 'running');

      create table approvals (
        id uuid primary key,
        tenant_id uuid not null,
        run_id uuid not null,
        turn_id uuid not null,
        kind text not null check (kind in ('approval', 'unknown', 'conflict')),
        tool_call_id uuid,
        plan_id uuid,
        tool text not null,
        arguments jsonb not null,
        -- what the model asked for, where a person has put other arguments in its place
        original_arguments jsonb,
        digest text not null,
        message text,
        policy jsonb,
        four_eyes boolean not null default false,
        decided_by uuid,
        status text not null check (status in ('pending', 'approved', 'denied', 'expired', 'settled')),
        decision text,
        reason text,
        expires_at timestamptz not null,
        created_at timestamptz not null,
        decided_at timestamptz
      );
      create index approvals_page on approvals (tenant_id, id desc);
      create index approvals_open on approvals (tenant_id, id desc) where status = 'pending';
      create index approvals_by_run on approvals (run_id);
      create index approvals_due on approvals (expires_at) where status = 'pending';

      -- What came from outside for a run; delivered twice it counts once.
      create table signals (
        run_id uuid not null,
        id text not null,
        tenant_id uuid not null,
        type text not null,
        created_at timestamptz not null default now(),
        primary key (run_id, id)
      );

      create table outbox (
        id uuid primary key,
        tenant_id uuid not null,
        queue text not null,
        job_id text not null,
        payload jsonb not null,
        children jsonb,
        created_at timestamptz not null default now()
      );

      create table run_events (
        tenant_id uuid not null,
        workspace_id uuid not null,
        run_id uuid not null,
        seq bigint not null,
        turn_id uuid,
        step integer,
        type text not null,
        schema_version integer not null,
        actor text not null,
        payload jsonb not null,
        occurred_at timestamptz not null,
        primary key (run_id, seq)
      ) partition by range (run_id);

      create table messages (
        tenant_id uuid not null,
        lineage uuid not null,
        ordinal integer not null,
        run_id uuid not null,
        role message_role not null,
        content jsonb not null,
        chain text not null,
        created_at timestamptz not null,
        primary key (lineage, ordinal)
      ) partition by range (lineage);

      create table checkpoints (
        tenant_id uuid not null,
        run_id uuid not null,
        seq bigint not null,
        id uuid not null,
        parent_id uuid,
        node text not null,
        trigger checkpoint_trigger not null,
        lineage uuid not null,
        length integer not null,
        state jsonb not null,
        channel_versions jsonb not null,
        pending_sends jsonb not null,
        hash text not null,
        created_at timestamptz not null,
        primary key (run_id, seq)
      ) partition by range (run_id);

      -- What the log says of model calls, for reading. A table of it would be an eighth of what a step writes.
      create view llm_calls with (security_invoker = true) as
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
        where e.type = 'model.responded';
    `);
  },
};
