/** Objectives are found by their runs, whose erasure takes their texts. */
import type { Migration } from './migration.ts';

export const foundByWhatTheyHold: Migration = {
  name: '0192-found-by-what-they-hold',
  up: async (knex) => {
    await knex.raw(`
      create index objectives_of_run on objectives (run_id);
      comment on table objectives is null;
    `);
  },
};
