/** The key that has submitted a task to a workflow: that is not always the one that began the workflow. */
import type { Migration } from './migration.ts';

export const whoAskedForTasks: Migration = {
  name: '0176-who-asked-for-tasks',
  up: async (knex) => {
    await knex.raw('alter table tasks add column requested_by uuid');
  },
};
