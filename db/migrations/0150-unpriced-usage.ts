/** Sums of usage say how much of it has no known price. */
import type { Migration } from './migration.ts';

export const unpricedUsage: Migration = {
  name: '0150-unpriced-usage',
  up: async (knex) => {
    await knex.raw(`
      alter table usage_daily add column unpriced bigint not null default 0;
      -- Their answers have one column more; what is in db/functions/dashboard.sql makes them again.
      drop function if exists read_usage(jsonb);
      drop function if exists usage_of_run(runs);
    `);
  },
};
