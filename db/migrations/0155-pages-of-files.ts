/** How many pages a PDF has: by them models count it. */
import type { Migration } from './migration.ts';

export const pagesOfFiles: Migration = {
  name: '0155-pages-of-files',
  up: async (knex) => {
    await knex.raw(`
      -- Null in what is no PDF, where nobody can say, and in files from before this column.
      alter table files add column pages integer;
    `);
  },
};
