/** What maintenance may delete because it is over and old; `db/retention.ts` says which rows. */
import type { Migration } from './migration.ts';

export const retention: Migration = {
  name: '0015-retention',
  up: async (knex) => {
    await knex.raw(`
      create policy maintenance_find_signals on signals for select to drover_maintenance using (true);
      grant select on signals to drover_maintenance;
    `);
    for (const table of ['waits', 'signals', 'reservations']) {
      await knex.raw(`create policy maintenance_forget_${table} on ${table} for delete to drover_maintenance using (true);
        grant delete on ${table} to drover_maintenance;`);
    }
  },
};
