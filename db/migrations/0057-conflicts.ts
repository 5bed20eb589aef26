/** What contradicts each other in memory: approvals that belong to no run, what webhooks are told of them, and checks that ask a model. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const conflicts: Migration = {
  name: '0057-conflicts',
  up: async (knex) => {
    await knex.raw(`
      -- An approval of kind conflict belongs to no run, but to a fragment or an entry of memory.
      alter table approvals alter column run_id drop not null, alter column turn_id drop not null,
        add column workspace_id uuid, add column subject_type text, add column subject_id uuid;
      create index approvals_by_subject on approvals (subject_id) where subject_id is not null;

      -- What is told of something that stands in no log.
      alter table webhook_deliveries alter column run_id drop not null, alter column seq drop not null, add column notice jsonb;

      alter table memory_spaces add column conflict_check text not null default 'off' check (conflict_check in ('off', 'rules', 'model'));

      -- It belongs to a team that there is, or was: only its members are let in.
      alter table memory_spaces add column is_of_team boolean not null default false;
      create index memory_spaces_by_team on memory_spaces (team_id) where is_of_team;
      create index memory_fragments_expiry on memory_fragments (expires_at) where expires_at is not null;
      create policy maintenance_finds_expired_fragments on memory_fragments for select to drover_maintenance using (true);
      grant select (id, tenant_id, expires_at) on memory_fragments to drover_maintenance;
      grant select (id, expires_at) on memory_entries to drover_maintenance;

      -- What a model is to be asked about, after its commit. Ids alone.
      create table memory_checks (
        subject_id uuid primary key,
        tenant_id uuid not null,
        subject_type text not null check (subject_type in ('fragment', 'memory')),
        -- The agent, or the space.
        owner_id uuid not null,
        due_at timestamptz not null default now(),
        attempts integer not null default 0
      );
      ${tenantTable('memory_checks')}
      create index memory_checks_due on memory_checks (due_at);
      create policy maintenance_finds_checks on memory_checks for select to drover_maintenance using (true);
      grant select on memory_checks to drover_maintenance;
    `);
  },
};
