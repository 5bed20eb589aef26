/** How often a run's lease was lost since its driver last committed: some runs take every process with them. */
import type { Migration } from './migration.ts';

export const lostLeases: Migration = {
  name: '0185-lost-leases',
  up: async (knex) => {
    await knex.raw('alter table runs add column lost_leases integer not null default 0');
  },
};
