/** Requests that have become runs, by the id that their sender gave them: for as long as there is the run. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const objectives: Migration = {
  name: '0013-objectives',
  up: async (knex) => {
    await knex.raw(`
      create table objectives (
        tenant_id uuid not null,
        request_id text not null,
        body_digest text not null,
        run_id uuid,
        created_at timestamptz not null default now(),
        primary key (tenant_id, request_id)
      );
      ${tenantTable('objectives')}
    `);
  },
};
