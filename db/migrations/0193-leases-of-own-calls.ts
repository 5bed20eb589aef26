/** Who asks a model for Drover itself renews a lease, so that the call of a process that has died is known to be lost. */
import type { Migration } from './migration.ts';

export const leasesOfOwnCalls: Migration = {
  name: '0193-leases-of-own-calls',
  up: async (knex) => {
    // Null where a process of the release before has begun the call.
    await knex.raw('alter table own_model_calls add column lease_expires_at timestamptz');
  },
};
