/** What tools need beside their definitions: secrets, and what their servers propose. */
import type { Migration } from './index.ts';

export const tools: Migration = {
  name: '0009-tools',
  up: async (knex) => {
    const tenant = "nullif(current_setting('drover.tenant_id', true), '')::uuid";
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
      alter table secrets enable row level security;
      alter table secrets force row level security;
      create policy tenant_isolation on secrets to drover_app
        using (tenant_id = ${tenant}) with check (tenant_id = ${tenant});
      grant select, insert, update, delete on secrets to drover_app;
    `);
  },
};
