/** Where the events of a turn begin: who shows a turn reads its events, and not those of the whole run. */
import type { Migration } from './migration.ts';

export const turnStarts: Migration = {
  name: '0054-turn-starts',
  up: async (knex) => {
    await knex.raw(`
      -- Null in turns of older builds: their beginning is looked for in the log.
      alter table turns add column started_seq bigint;
    `);
  },
};
