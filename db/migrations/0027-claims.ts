/** Claims of calls have ids: a worker that does not know whether its claim was made finds out. */
import type { Migration } from './migration.ts';

export const claims: Migration = {
  name: '0027-claims',
  up: async (knex) => {
    await knex.raw(`
      -- The claim that holds the lease, or held it last.
      alter table tool_calls add column claim_id uuid;
    `);
  },
};
