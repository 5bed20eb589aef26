/** Handoffs: what one agent has handed to another, one row each. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const handoffs: Migration = {
  name: '0051-handoffs',
  up: async (knex) => {
    await knex.raw(`
      create table handoffs (
        id uuid primary key,
        tenant_id uuid not null references tenants (id),
        workspace_id uuid not null,
        task_id uuid,
        workflow_id uuid,
        source_agent_id uuid not null,
        target_agent_id uuid not null,
        -- The run that hands over, and the call that did it, where an agent did.
        source_run_id uuid,
        tool_call_id uuid,
        -- The handoff that had brought the work to the source, and how many there were before.
        previous_id uuid,
        place integer not null,
        -- Who takes it on: the scheduler of the workflow; or the target in the next run of the thread, or in a run by itself.
        carried_by text not null check (carried_by in ('workflow', 'thread', 'run')),
        status text not null check (status in ('initiated', 'accepted', 'completed', 'rejected', 'failed', 'cancelled')),
        reason text not null,
        urgency text not null check (urgency in ('low', 'medium', 'high', 'critical')),
        expected_action text,
        context jsonb not null,
        schema_version text not null,
        checksum text not null,
        target_tokens integer not null,
        -- What the target is given of it.
        summary jsonb not null,
        summary_tokens integer not null,
        full_tokens integer not null,
        requested_by uuid,
        target_run_id uuid,
        rejection jsonb,
        -- The run in which it came back to the source.
        returned_run_id uuid,
        estimated_pickup timestamptz,
        created_at timestamptz not null default clock_timestamp(),
        accepted_at timestamptz,
        completed_at timestamptz
      );
      create index handoffs_by_source on handoffs (source_agent_id, created_at);
      create index handoffs_by_task on handoffs (task_id, id) where task_id is not null;
      create index handoffs_by_source_run on handoffs (source_run_id) where source_run_id is not null;
      create index handoffs_by_target_run on handoffs (target_run_id) where target_run_id is not null;
      create index handoffs_by_returned_run on handoffs (returned_run_id) where returned_run_id is not null;
      create unique index handoffs_by_call on handoffs (tool_call_id) where tool_call_id is not null;
      create index handoffs_page on handoffs (workspace_id, id desc);
      create index handoffs_open on handoffs (tenant_id, id) where completed_at is null;
      ${tenantTable('handoffs')}
      -- How they stand, not what they say.
      create policy maintenance_carry_handoffs on handoffs for select to drover_maintenance using (true);
      grant select (tenant_id, id, status, carried_by, workflow_id, source_run_id, target_run_id, created_at, completed_at)
        on handoffs to drover_maintenance;

      -- How often it was handed over or came back: with its retries, the number of the next attempt.
      alter table tasks add column handoff_count integer not null default 0;
      drop index tasks_due;
      create index tasks_due on tasks (deadline) where deadline is not null and status in ('pending', 'assigned', 'in_progress', 'awaiting_handoff');
    `);
  },
};
