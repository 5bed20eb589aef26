/** Turns that agents learn from: which are due, and what came of the others. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const extraction: Migration = {
  name: '0056-extraction',
  up: async (knex) => {
    await knex.raw(`
      -- Written by the commit that completes the turn. Ids and counts, no text.
      create table memory_extractions (
        turn_id uuid primary key,
        tenant_id uuid not null,
        agent_id uuid not null,
        run_id uuid not null,
        status text not null default 'due' check (status in ('due', 'done')),
        due_at timestamptz not null default now(),
        attempts integer not null default 0,
        -- A model, or the rules that need none.
        made_by text check (made_by in ('model', 'rules')),
        added uuid[] not null default '{}',
        superseded uuid[] not null default '{}',
        -- How many texts each rule has refused.
        refused jsonb not null default '{}',
        created_at timestamptz not null default now(),
        finished_at timestamptz
      );
      ${tenantTable('memory_extractions')}
      create index memory_extractions_page on memory_extractions (agent_id, turn_id);
      create index memory_extractions_run on memory_extractions (run_id);
      create index memory_extractions_due on memory_extractions (due_at) where status = 'due';
      create index memory_extractions_age on memory_extractions (finished_at) where status = 'done';
      create policy maintenance_finds_extractions on memory_extractions for select to drover_maintenance using (true);
      create policy maintenance_forget_extractions on memory_extractions for delete to drover_maintenance using (true);
      grant select, delete on memory_extractions to drover_maintenance;
    `);
  },
};
