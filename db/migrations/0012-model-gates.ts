/**
 * The way to each model of each credential, for all workers: shut for a while after the provider has said so, and rationed
 * where the installation knows its rates. Nothing of a tenant's is in here. It is not in Redis, since it would be lost
 * with it, and every worker would learn anew what all of them together may ask for.
 */
import type { Migration } from './migration.ts';

export const modelGates: Migration = {
  name: '0012-model-gates',
  up: async (knex) => {
    await knex.raw(`
      create table model_gates (
        name text primary key,
        closed_until timestamptz not null,
        -- When all that was let through will have been worked off at the permitted rate.
        requests_until timestamptz not null,
        tokens_until timestamptz not null
      );
      alter table model_gates enable row level security;
      alter table model_gates force row level security;
      create policy one_for_all on model_gates to drover_app using (true) with check (true);
      grant select, insert, update on model_gates to drover_app;
    `);
  },
};
