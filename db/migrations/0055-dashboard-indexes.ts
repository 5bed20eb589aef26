/** What a dashboard finds errors of a tenant by, however many of others there are; 0095 has what it finds waiting work by. */
import type { Migration } from './migration.ts';

export const dashboardIndexes: Migration = {
  name: '0055-dashboard-indexes',
  up: async (knex) => {
    await knex.raw(`
      create index turns_failed_of_tenant on turns (tenant_id, completed_at desc, id desc) where status = 'failed';
    `);
  },
};
