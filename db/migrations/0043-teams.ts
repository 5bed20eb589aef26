/** Teams: agents that work together, and how. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const teams: Migration = {
  name: '0043-teams',
  up: async (knex) => {
    await knex.raw(`
      create table teams (
        id uuid primary key,
        tenant_id uuid not null references tenants (id),
        workspace_id uuid not null,
        name text not null,
        orchestration_pattern text not null check (orchestration_pattern in ('hierarchical', 'parallel', 'sequential')),
        supervisor_agent_id uuid,
        config jsonb not null,
        created_at timestamptz not null default now(),
        updated_at timestamptz not null default now()
      );
      create index teams_page on teams (workspace_id, id desc);
      ${tenantTable('teams')}

      create table team_members (
        team_id uuid not null references teams (id) on delete cascade,
        agent_id uuid not null references agents (id),
        tenant_id uuid not null references tenants (id),
        role text not null,
        priority integer not null,
        primary key (team_id, agent_id)
      );
      ${tenantTable('team_members')}

      -- What an agent can do, for those who look for one.
      create index agent_versions_by_capability on agent_versions using gin ((definition->'capabilities') jsonb_path_ops);
    `);
  },
};
