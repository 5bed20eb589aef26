/** When what is in the archive of agents' memory goes. */
import type { Migration } from './migration.ts';

export const archiveExpiry: Migration = {
  name: '0049-archive-expiry',
  up: async (knex) => {
    await knex.raw(`
      alter table memory_archive add column expires_at timestamptz;
      update memory_archive set expires_at = (entry->>'expires_at')::timestamptz where entry->>'expires_at' is not null;
      create index memory_archive_expiry on memory_archive (expires_at) where expires_at is not null;
      create policy maintenance_finds_expired on memory_archive for select to drover_maintenance using (true);
      -- Whose it is, and nothing of what it says.
      grant select (id, tenant_id, expires_at) on memory_archive to drover_maintenance;
    `);
  },
};
