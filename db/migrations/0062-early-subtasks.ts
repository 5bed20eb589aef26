/** Subtasks that begin while their plan is still being written. */
import type { Migration } from './migration.ts';

export const earlySubtasks: Migration = {
  name: '0062-early-subtasks',
  up: async (knex) => {
    await knex.raw(`
      -- A plan is being written, of which some subtasks are there already.
      alter table workflows add column is_planning boolean not null default false;
      -- Of a plan that is not whole yet; or, cancelled, of one that was never whole, or that the whole one has not.
      alter table tasks add column is_early boolean not null default false;
    `);
  },
};
