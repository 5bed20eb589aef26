/** What runs wait for from outside: one row a wait, which costs nothing until it is answered or its time is up. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const waits: Migration = {
  name: '0007-waits',
  up: async (knex) => {
    await knex.raw(`
      -- The id is that of the tool call which waits.
      create table waits (
        id uuid primary key,
        tenant_id uuid not null,
        run_id uuid not null,
        turn_id uuid not null,
        type text not null check (type in ('user', 'webhook', 'timer', 'tool_results')),
        name text,
        until timestamptz not null,
        -- SHA-256 of the webhook's token.
        token_hash bytea,
        -- The token itself, encrypted, for those who may pass it on.
        token_key_id text,
        token_sealed bytea,
        created_at timestamptz not null,
        -- Operational: whoever turns due waits into events holds them so long.
        claimed_until timestamptz,
        closed_at timestamptz
      );
      create index waits_open on waits (run_id) where closed_at is null;
      create index waits_due on waits (until) where closed_at is null;
      create unique index waits_by_token on waits (token_hash) where token_hash is not null;

      ${tenantTable('waits')}
      create policy maintenance_find_waits on waits for select to drover_maintenance using (true);
      grant select on waits to drover_maintenance;
      create policy maintenance_claim_due_waits on waits for update to drover_maintenance using (true);
      grant update (claimed_until) on waits to drover_maintenance;
    `);
  },
};
