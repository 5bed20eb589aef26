/**
 * Outages of model providers, one row for each credential and model that is away, for all workers; and the runs that
 * wait for its end. Nothing of a tenant's is in an outage.
 */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const modelOutages: Migration = {
  name: '0029-model-outages',
  up: async (knex) => {
    await knex.raw(`
      create table model_outages (
        -- As in model_rates.
        name text primary key,
        since timestamptz not null,
        -- Failures since then: of the first run that met it, and of each probe.
        failures integer not null,
        -- Before this time nobody asks.
        next_at timestamptz not null,
        -- code, message
        error jsonb not null,
        -- The run that asks for all, and until when no other does.
        probing_run uuid,
        probing_until timestamptz
      );
      alter table model_outages enable row level security;
      alter table model_outages force row level security;
      create policy one_for_all on model_outages to drover_app using (true) with check (true);
      grant select, insert, update, delete on model_outages to drover_app;
      create policy maintenance_end_outages on model_outages to drover_maintenance using (true) with check (true);
      grant select, update, delete on model_outages to drover_maintenance;

      -- Operational: a row for each outage that a dormant run waits for; which run that is, its log says, too.
      create table parked_runs (
        run_id uuid not null,
        outage text not null,
        tenant_id uuid not null,
        parked_at timestamptz not null,
        -- When the run gives up.
        until timestamptz not null,
        primary key (run_id, outage)
      );
      create index parked_runs_by_outage on parked_runs (outage, parked_at);
      create index parked_runs_due on parked_runs (until);
      ${tenantTable('parked_runs')}
      create policy maintenance_find_parked_runs on parked_runs for select to drover_maintenance using (true);
      grant select on parked_runs to drover_maintenance;
    `);
  },
};
