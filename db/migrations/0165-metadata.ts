/** What clients keep with runs and threads, and threads under names of their own. What they keep with a turn is in its input. */
import type { Migration } from './migration.ts';

export const metadata: Migration = {
  name: '0165-metadata',
  up: async (knex) => {
    await knex.raw(`
      alter table runs add column metadata jsonb;
      alter table threads add column metadata jsonb not null default '{}', add column external_id text;
      create unique index threads_by_external_id on threads (workspace_id, external_id) where external_id is not null;
    `);
  },
};
