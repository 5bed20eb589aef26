/** When a file came into a run: uses of runs that were never made are found by it. */
import type { Migration } from './migration.ts';

export const fileUses: Migration = {
  name: '0041-file-uses',
  up: async (knex) => {
    await knex.raw(`
      alter table file_uses add column created_at timestamptz not null default now();
      create index file_uses_by_time on file_uses (created_at);
      create policy maintenance_finds_uses on file_uses to drover_maintenance using (true);
      grant select on file_uses to drover_maintenance;
    `);
  },
};
