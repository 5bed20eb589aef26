/** Agents under names of the client's own, unique in a workspace. */
import type { Migration } from './migration.ts';

export const externalIds: Migration = {
  name: '0164-external-ids',
  up: async (knex) => {
    await knex.raw(`
      alter table agents add column external_id text;
      create unique index agents_by_external_id on agents (workspace_id, external_id) where external_id is not null;
    `);
  },
};
