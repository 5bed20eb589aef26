/** The dashboard counts the titles that a tenant waits for. */
import type { Migration } from './migration.ts';

export const titlesByTenant: Migration = {
  name: '0072-titles-by-tenant',
  up: async (knex) => {
    await knex.raw('create index due_titles_by_tenant on due_titles (tenant_id, due_at)');
  },
};
