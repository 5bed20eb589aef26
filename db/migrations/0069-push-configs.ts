/** Webhooks of one run: whom an A2A client wants to be told of its task. */
import type { Migration } from './migration.ts';

export const pushConfigs: Migration = {
  name: '0069-push-configs',
  up: async (knex) => {
    await knex.raw(`
      alter table webhooks
        -- Only this run is told of, in the form of A2A; null: all runs of the tenant or the workspace.
        add column run_id uuid,
        -- What its client calls it.
        add column push_id text,
        -- What each message to it carries, encrypted.
        add column token_key_id text,
        add column token_sealed bytea,
        add constraint webhooks_push_check check ((run_id is null) = (push_id is null));
      create unique index webhooks_push on webhooks (run_id, push_id) where run_id is not null;
      drop index webhooks_active;
      create index webhooks_active on webhooks (tenant_id) where status = 'active' and run_id is null;
      create policy maintenance_forget_push_configs on webhooks for delete to drover_maintenance using (run_id is not null);
      grant delete, select (run_id) on webhooks to drover_maintenance;
    `);
  },
};
