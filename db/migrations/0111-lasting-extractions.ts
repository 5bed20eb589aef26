/** What a turn has changed of its agent's memory belongs to its run, as long as that; only what changed nothing is forgotten. */
import type { Migration } from './migration.ts';

export const lastingExtractions: Migration = {
  name: '0111-lasting-extractions',
  up: async (knex) => {
    // Whoever forgets the others does not look at those that stay.
    await knex.raw(`
      drop index memory_extractions_age;
      create index memory_extractions_age on memory_extractions (finished_at)
        where status = 'done' and added = '{}' and superseded = '{}';
    `);
  },
};
