/** What agents delegate are tasks, too: of no workflow, but of the run that has delegated them. */
import type { Migration } from './migration.ts';

export const delegatedTasks: Migration = {
  name: '0066-delegated-tasks',
  up: async (knex) => {
    await knex.raw(`
      alter table tasks alter column workflow_id drop not null;
      alter table tasks
        -- The run that has delegated it, where no workflow has it; its id is that of the call then.
        add column parent_run_id uuid,
        -- The task that it is a part of: as whoever submitted it has said, or the one whose run has delegated it.
        add column parent_task_id uuid,
        -- When a person last had it tried again: its time begins anew.
        add column asked_at timestamptz,
        add constraint tasks_parent check (workflow_id is not null or parent_run_id is not null);
      create index tasks_by_parent on tasks (parent_run_id, status) where parent_run_id is not null;
    `);
  },
};
