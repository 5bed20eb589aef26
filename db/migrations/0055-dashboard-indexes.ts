/** What a dashboard finds errors and waiting work of a tenant by, however much of others there is. */
import type { Migration } from './migration.ts';

export const dashboardIndexes: Migration = {
  name: '0055-dashboard-indexes',
  up: async (knex) => {
    await knex.raw(`
      create index turns_failed_of_tenant on turns (tenant_id, completed_at desc, id desc) where status = 'failed';
      create index memory_checks_of_tenant on memory_checks (tenant_id, due_at);
      create index memory_extractions_of_tenant on memory_extractions (tenant_id, due_at) where status = 'due';
    `);
  },
};
