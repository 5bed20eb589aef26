/** Secrets name the hosts that they may be sent to. */
import type { Migration } from './migration.ts';

export const secretHosts: Migration = {
  name: '0028-secret-hosts',
  up: async (knex) => {
    await knex.raw(`
      -- Null: none are named, and only an admin may use the secret in a tool.
      alter table secrets add column hosts text[] check (cardinality(hosts) > 0);
    `);
  },
};
