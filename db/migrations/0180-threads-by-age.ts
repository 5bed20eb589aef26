/** Lists of threads go by when they began: ids that clients give, or that follow from their names, are of no order. */
import type { Migration } from './migration.ts';

export const threadsByAge: Migration = {
  name: '0180-threads-by-age',
  up: async (knex) => {
    await knex.raw(`
      create index threads_newest on threads (workspace_id, created_at desc, id desc);
      create index threads_newest_of_agent on threads (agent_id, created_at desc, id desc);
      drop index threads_page;
      drop index threads_by_agent;
    `);
  },
};
