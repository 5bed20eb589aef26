/** When each act of maintenance is due, by the database's clock: those of the workers may differ by minutes. */
import type { Migration } from './migration.ts';

export const maintenance: Migration = {
  name: '0011-maintenance',
  up: async (knex) => {
    await knex.raw(`
      create table maintenance_acts (
        act text primary key,
        due_at timestamptz not null
      );
      alter table maintenance_acts enable row level security;
      alter table maintenance_acts force row level security;
      create policy maintenance_schedule on maintenance_acts to drover_maintenance using (true) with check (true);
      grant select, insert, update on maintenance_acts to drover_maintenance;`);
  },
};
