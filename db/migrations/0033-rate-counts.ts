/** How much has been asked for within windows of time that are open, for all API processes. */
import type { Migration } from './migration.ts';

export const rateCounts: Migration = {
  name: '0033-rate-counts',
  up: async (knex) => {
    await knex.raw(`
      -- Unlogged: a request would else wait for the disk, and what a crash of the server forgets is a window of an hour at
      -- most. No index but the key's and room in each page: an update then stays in its page.
      create unlogged table rate_counts (
        -- What is counted, and whose: ids and digests.
        name text primary key,
        used integer not null,
        -- The end of the window.
        until timestamptz not null
      ) with (fillfactor = 50);
      alter table rate_counts enable row level security;
      alter table rate_counts force row level security;
      create policy one_for_all on rate_counts to drover_app using (true) with check (true);
      grant select, insert, update on rate_counts to drover_app;
      create policy maintenance_forget_rate_counts on rate_counts to drover_maintenance using (true) with check (true);
      grant select, delete on rate_counts to drover_maintenance;
    `);
  },
};
