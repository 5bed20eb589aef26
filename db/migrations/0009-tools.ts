/** What tools need beside their definitions: secrets, and what their servers propose. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const tools: Migration = {
  name: '0009-tools',
  up: async (knex) => {
    await knex.raw(`
      -- what a server says of the tool since it has changed its mind, until a person has looked at it
      alter table tools add column proposed jsonb;

      create table secrets (
        tenant_id uuid not null references tenants,
        name text not null,
        key_id text not null,
        sealed bytea not null,
        created_at timestamptz not null default now(),
        updated_at timestamptz not null default now(),
        primary key (tenant_id, name)
      );
      ${tenantTable('secrets')}
    `);
  },
};
