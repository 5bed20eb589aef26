/** Workflows and their tasks. A workflow is a run of that kind, with the same id; each attempt of a task is a child of it. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const workflows: Migration = {
  name: '0042-workflows',
  up: async (knex) => {
    await knex.raw(`
      -- The run that the thread's runs are children of: lists of threads leave it out.
      alter table threads add column parent_run_id uuid;
      create index runs_by_parent on runs (parent_run_id, id) where parent_run_id is not null;
      create index runs_by_root on runs (root_run_id, id) where parent_run_id is not null;

      -- The runs above the one that has set it aside, from the root on: it is part of what each of them spends.
      alter table reservations add column chain uuid[];

      create table workflows (
        -- That of its run.
        id uuid primary key,
        tenant_id uuid not null references tenants (id),
        workspace_id uuid not null,
        name text not null,
        agent_id uuid,
        team_id uuid,
        input jsonb not null,
        success_criteria text,
        -- on_subtask_failure, execution, max_replans.
        settings jsonb not null,
        -- False for the one that a single task has to itself.
        is_listed boolean not null,
        created_at timestamptz not null default now()
      );
      create index workflows_page on workflows (workspace_id, id desc) where is_listed;
      ${tenantTable('workflows')}

      create table tasks (
        id uuid primary key,
        tenant_id uuid not null references tenants (id),
        workspace_id uuid not null,
        workflow_id uuid not null,
        -- The subtask's id in the definition, and its place there.
        name text not null,
        place integer not null,
        description text not null,
        input jsonb,
        requirements jsonb not null,
        -- The agent that the definition names.
        agent_id uuid,
        dependencies uuid[] not null,
        status text not null check (status in ('pending', 'assigned', 'in_progress', 'awaiting_handoff', 'completed', 'failed', 'cancelled')),
        retry_count integer not null default 0,
        -- Agents that have failed at it, each once for each time.
        failed_agents uuid[] not null default '{}',
        assigned_agent_id uuid,
        assigned_at timestamptz,
        assignment_reason text,
        -- The child that works on it, or has last.
        run_id uuid,
        -- Whether a person is asked to have it tried again.
        approval_id uuid,
        error jsonb,
        tokens_used bigint,
        latency_ms integer,
        deadline timestamptz,
        created_at timestamptz not null default now(),
        updated_at timestamptz not null default now(),
        completed_at timestamptz
      );
      create index tasks_by_workflow on tasks (workflow_id, status);
      create index tasks_page on tasks (workspace_id, id desc);
      create index tasks_by_run on tasks (run_id) where run_id is not null;
      create index tasks_open on tasks (id) where status in ('assigned', 'in_progress');
      create index tasks_by_agent on tasks (assigned_agent_id) where status in ('assigned', 'in_progress');
      create index tasks_due on tasks (deadline) where deadline is not null and status in ('pending', 'assigned', 'in_progress');
      ${tenantTable('tasks')}
      create policy maintenance_reconcile_tasks on tasks for select to drover_maintenance using (true);
      grant select on tasks to drover_maintenance;
    `);
  },
};
