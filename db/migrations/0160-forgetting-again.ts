/** What has been forgotten is looked for again in the runs that have had it: something may have been about to be written down there. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const forgettingAgain: Migration = {
  name: '0160-forgetting-again',
  up: async (knex) => {
    await knex.raw(`
      -- Ids alone: a row goes minutes after what it names.
      create table memory_forgettings (
        id uuid primary key,
        tenant_id uuid not null,
        memories uuid[] not null,
        -- The runs that were known to have them.
        runs uuid[] not null,
        -- Their calls of memory tools that were under way, and those of them that have told what was forgotten.
        calls uuid[] not null,
        told uuid[] not null,
        created_at timestamptz not null default clock_timestamp(),
        due_at timestamptz not null default clock_timestamp() + interval '1 minute'
      );
      ${tenantTable('memory_forgettings')}
      comment on table memory_forgettings is 'No content of runs: ids alone';
      create index memory_forgettings_due on memory_forgettings (due_at);
      create index memory_forgettings_told on memory_forgettings (tenant_id) where told <> '{}';
      create policy maintenance_finds_forgettings on memory_forgettings for select to drover_maintenance using (true);
      grant select (id, tenant_id, due_at) on memory_forgettings to drover_maintenance;
    `);
  },
};
