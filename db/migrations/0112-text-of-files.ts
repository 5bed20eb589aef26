/** Whether the content of a file is text that a model can be shown. */
import type { Migration } from './migration.ts';

export const textOfFiles: Migration = {
  name: '0112-text-of-files',
  up: async (knex) => {
    await knex.raw(`
      -- Of larger files than models are shown as text it is said of their beginning; null in those from before this column.
      alter table files add column is_utf8 boolean;
    `);
  },
};
