/** Webhooks, and what is to be delivered to them: rows that `commit_run` writes with the events that they are for. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const webhooks: Migration = {
  name: '0014-webhooks',
  up: async (knex) => {
    await knex.raw(`
      create table webhooks (
        id uuid primary key,
        tenant_id uuid not null references tenants,
        workspace_id uuid,
        url text not null,
        events text[] not null,
        description text,
        status text not null check (status in ('active', 'disabled')),
        disabled_reason text,
        failing_since timestamptz,
        created_at timestamptz not null default now(),
        updated_at timestamptz not null default now()
      );
      create index webhooks_page on webhooks (tenant_id, id);
      create index webhooks_active on webhooks (tenant_id) where status = 'active';

      create table webhook_deliveries (
        id uuid primary key,
        tenant_id uuid not null,
        webhook_id uuid not null,
        run_id uuid not null,
        seq bigint not null,
        type text not null,
        status text not null check (status in ('pending', 'delivered', 'failed')),
        attempts integer not null default 0,
        next_at timestamptz not null default now(),
        response_status integer,
        error text,
        delivered_at timestamptz,
        created_at timestamptz not null default now()
      );
      create index webhook_deliveries_page on webhook_deliveries (webhook_id, created_at desc, id desc);
      create index webhook_deliveries_due on webhook_deliveries (next_at) where status = 'pending';
      create index webhook_deliveries_due_of on webhook_deliveries (webhook_id, next_at) where status = 'pending';
      create index webhook_deliveries_age on webhook_deliveries (created_at);
      ${tenantTable('webhooks')}
      ${tenantTable('webhook_deliveries')}
      grant select, delete on webhook_deliveries to drover_maintenance;
      create policy maintenance_due_deliveries on webhook_deliveries for select to drover_maintenance using (true);
      create policy maintenance_old_deliveries on webhook_deliveries for delete to drover_maintenance using (true);
    `);
  },
};
