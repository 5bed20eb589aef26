/**
 * The audit log. The service may add rows and read them, nothing else: it can neither change nor delete one, nor give it
 * a place in the chain. Maintenance gives places and hashes to rows that have none yet, and can change nothing else.
 */
import type { Migration } from './migration.ts';
import { isolate, tenantTable } from './tenant-table.ts';

export const audit: Migration = {
  name: '0010-audit',
  up: async (knex) => {
    await knex.raw(`
      create table audit_log (
        id uuid primary key,
        tenant_id uuid not null,
        workspace_id uuid,
        action text not null,
        actor_type text not null check (actor_type in ('api_key', 'operator', 'system')),
        actor_id uuid,
        target_type text not null,
        target_id text,
        digest text,
        details jsonb not null default '{}',
        ip text,
        forwarded_for text,
        request_id text,
        created_at timestamptz not null default now(),
        seq bigint,
        hash text
      );
      create index audit_log_page on audit_log (tenant_id, id);
      create index audit_log_action on audit_log (tenant_id, action, id);
      create index audit_log_actor on audit_log (tenant_id, actor_id, id);
      create unique index audit_log_chain on audit_log (tenant_id, seq) where seq is not null;
      create index audit_log_unsealed on audit_log (tenant_id, id) where seq is null;

      create table audit_heads (
        tenant_id uuid primary key,
        seq bigint not null,
        hash text not null
      );
      ${isolate('audit_log')}
      ${tenantTable('audit_heads')}
      grant select on audit_log to drover_app, drover_maintenance;
      grant insert (id, tenant_id, workspace_id, action, actor_type, actor_id, target_type, target_id, digest, details,
        ip, forwarded_for, request_id) on audit_log to drover_app;
      grant update (seq, hash) on audit_log to drover_maintenance;
      create policy maintenance_audit_reading on audit_log for select to drover_maintenance using (true);
      create policy maintenance_audit_sealing on audit_log for update to drover_maintenance
        using (seq is null) with check (seq is not null and hash is not null);
      grant select, insert, update on audit_heads to drover_maintenance;
      create policy maintenance_audit_head_reading on audit_heads for select to drover_maintenance using (true);
      create policy maintenance_audit_head_making on audit_heads for insert to drover_maintenance with check (true);
      create policy maintenance_audit_head_moving on audit_heads for update to drover_maintenance using (true);
    `);
  },
};
