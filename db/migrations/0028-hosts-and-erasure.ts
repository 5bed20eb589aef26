/** Secrets name the hosts that they may be sent to; runs and threads whose content is erased say so. */
import type { Migration } from './migration.ts';

export const hostsAndErasure: Migration = {
  name: '0028-hosts-and-erasure',
  up: async (knex) => {
    await knex.raw(`
      -- Null: none are named, and only an admin may use the secret in a tool.
      alter table secrets add column hosts text[] check (cardinality(hosts) > 0);
      alter table runs add column erased_at timestamptz;
      alter table threads add column erased_at timestamptz;
      -- Forks stand on what they were forked from. Few runs are any.
      create index runs_by_origin on runs (forked_from_run_id) where forked_from_run_id is not null;
    `);
  },
};
