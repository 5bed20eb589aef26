/** What was done to memories beside runs, so that it can be undone; and which of them were used where, and why. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const consolidation: Migration = {
  name: '0046-consolidation',
  up: async (knex) => {
    await knex.raw(`
      -- A proposal with its inputs and what it has changed: ids and numbers, no text.
      create table memory_consolidations (
        id uuid primary key,
        tenant_id uuid not null references tenants (id),
        agent_id uuid not null,
        strategy text not null,
        inputs jsonb not null,
        diff jsonb not null,
        consolidated integer not null,
        evicted integer not null,
        key_id uuid,
        created_at timestamptz not null default now(),
        reverted_at timestamptz,
        reverted_by uuid
      );
      ${tenantTable('memory_consolidations')}
      create index memory_consolidations_page on memory_consolidations (agent_id, id);

      create table memory_accesses (
        id uuid primary key,
        tenant_id uuid not null references tenants (id),
        -- An entry of an agent's memory, or a fragment of a space.
        memory_id uuid not null,
        agent_id uuid,
        run_id uuid,
        turn_id uuid,
        operation text not null check (operation in ('turn', 'recall', 'query', 'write', 'search', 'resolve')),
        score double precision,
        why jsonb,
        accessed_at timestamptz not null default now()
      );
      ${tenantTable('memory_accesses')}
      create index memory_accesses_of on memory_accesses (memory_id, id);
      create index memory_accesses_run on memory_accesses (run_id) where run_id is not null;
      create policy maintenance_forget_accesses on memory_accesses to drover_maintenance using (true) with check (true);
      grant select, delete on memory_accesses to drover_maintenance;

      grant select (memory_type) on memory_entries to drover_maintenance;
      create index memory_entries_short on memory_entries (created_at)
        where memory_type = 'SHORT_TERM' and status in ('active', 'disputed');
    `);
  },
};
