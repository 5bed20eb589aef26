/** Webhooks take turns: each has a time before which it is left alone, and a sender at a time. */
import type { Migration } from './migration.ts';

export const webhookTurns: Migration = {
  name: '0026-webhook-turns',
  up: async (knex) => {
    await knex.raw(`
      -- Rounds in a row in which nothing arrived, and until when it is left alone for that.
      alter table webhooks add column failures integer not null default 0;
      alter table webhooks add column next_at timestamptz;
      -- Until when a sender has it, and since when it has had its last turn.
      alter table webhooks add column taken_until timestamptz;
      alter table webhooks add column taken_at timestamptz;
      grant select (id, tenant_id, next_at, taken_until, taken_at), update (taken_until, taken_at)
        on webhooks to drover_maintenance;
      create policy maintenance_webhook_turns on webhooks for select to drover_maintenance using (true);
      create policy maintenance_take_webhooks on webhooks for update to drover_maintenance using (true) with check (true);
    `);
  },
};
