/** What a dashboard finds waiting work of a tenant by, however much of others there is. */
import type { Migration } from './migration.ts';

export const waitingIndexes: Migration = {
  name: '0095-waiting-indexes',
  up: async (knex) => {
    // 0055 has made them on databases that were migrated between two releases.
    await knex.raw(`
      create index if not exists memory_checks_of_tenant on memory_checks (tenant_id, due_at);
      create index if not exists memory_extractions_of_tenant on memory_extractions (tenant_id, due_at) where status = 'due';
    `);
  },
};
