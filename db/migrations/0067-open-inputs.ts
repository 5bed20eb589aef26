/** What of a workflow can start next is found without reading the whole of it. */
import type { Migration } from './migration.ts';

export const openInputs: Migration = {
  name: '0067-open-inputs',
  up: async (knex) => {
    await knex.raw(`
      alter table tasks
        -- Of the tasks that it depends on, those that are not completed; null where nobody has counted.
        add column open_inputs integer,
        -- The tasks that depend on it.
        add column dependents uuid[] not null default '{}',
        -- The longest chain of tasks that wait for it, one upon the other, itself included.
        add column path integer not null default 1;
      update tasks t set
        open_inputs = (select count(*) from tasks d where d.id = any(t.dependencies) and d.status <> 'completed'),
        dependents = array(select a.id from tasks a where a.workflow_id = t.workflow_id and t.id = any(a.dependencies))
      where t.workflow_id is not null;
      create index tasks_ready on tasks (workflow_id, deadline, path desc, place)
        where open_inputs = 0 and status in ('pending', 'awaiting_handoff');
      create index tasks_under_way on tasks (workflow_id)
        where status in ('assigned', 'in_progress', 'awaiting_handoff', 'failed', 'cancelled');
      create index tasks_overdue on tasks (workflow_id, deadline) where status = 'pending' and deadline is not null;
      create index tasks_left on tasks (workflow_id) where status <> 'completed';
    `);
  },
};
