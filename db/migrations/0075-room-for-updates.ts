/** Runs and turns are updated with each step: a page keeps room for that, so that an update touches no index. */
import type { Migration } from './migration.ts';

export const roomForUpdates: Migration = {
  name: '0075-room-for-updates',
  up: async (knex) => {
    // For pages that are written from now on; nothing is rewritten.
    await knex.raw(`
      alter table runs set (fillfactor = 50);
      alter table turns set (fillfactor = 50);
    `);
  },
};
