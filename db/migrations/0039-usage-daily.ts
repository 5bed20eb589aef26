/** What runs have come to, added up by day once they have ended. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const usageDaily: Migration = {
  name: '0039-usage-daily',
  up: async (knex) => {
    await knex.raw(`
      create table usage_daily (
        tenant_id uuid not null,
        workspace_id uuid not null,
        agent_id uuid not null,
        -- UTC, of the runs' beginning.
        day date not null,
        -- What is counted: runs by status, answers by model, calls by tool.
        kind text not null check (kind in ('run', 'model', 'tool')),
        name text not null,
        count bigint not null,
        failed bigint not null,
        turns bigint not null,
        steps bigint not null,
        tokens_in bigint not null,
        tokens_out bigint not null,
        cost_usd numeric not null,
        duration_ms bigint not null,
        primary key (tenant_id, workspace_id, day, agent_id, kind, name)
      );
      ${tenantTable('usage_daily')}

      -- A run is in the sums of usage_daily, or it is in this index; never in both. Null: the row was made anew from its
      -- log, and the sums may have it already.
      alter table runs add column rolled_up boolean default false;
      create index runs_not_rolled_up on runs (tenant_id, id) where not rolled_up;
    `);
  },
};
