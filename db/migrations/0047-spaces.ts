/** Memory that agents share: spaces, and fragments with all of their versions. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const spaces: Migration = {
  name: '0047-spaces',
  up: async (knex) => {
    await knex.raw(`
      create table memory_spaces (
        id uuid primary key,
        tenant_id uuid not null references tenants (id),
        workspace_id uuid not null,
        name text,
        team_id text,
        workflow_id text,
        scope text not null check (scope in ('private', 'team', 'workflow', 'global')),
        -- Without any, every agent of the workspace; those that are denied never.
        allowed_agents text[] not null default '{}',
        denied_agents text[] not null default '{}',
        max_fragments integer,
        retention_policy text,
        created_at timestamptz not null default now()
      );
      ${tenantTable('memory_spaces')}
      create index memory_spaces_page on memory_spaces (workspace_id, id);

      create table memory_fragments (
        id uuid primary key,
        tenant_id uuid not null references tenants (id),
        space_id uuid not null references memory_spaces (id),
        content jsonb not null,
        -- What of it can be searched.
        words text not null,
        version integer not null default 1,
        visibility text not null check (visibility in ('private', 'team', 'workflow', 'global')),
        allowed_agents text[] not null default '{}',
        denied_agents text[] not null default '{}',
        created_by_agent text,
        provenance jsonb not null,
        -- Both sides of a contradiction are kept until somebody resolves it.
        requires_resolution boolean not null default false,
        retention_policy text,
        expires_at timestamptz,
        last_accessed timestamptz,
        embedding vector,
        embedding_model text,
        created_at timestamptz not null default now(),
        updated_at timestamptz not null default now()
      );
      ${tenantTable('memory_fragments')}
      create index memory_fragments_page on memory_fragments (space_id, created_at, id);
      create index memory_fragments_unembedded on memory_fragments (space_id, id) where embedding is null;

      create table memory_fragment_versions (
        tenant_id uuid not null,
        fragment_id uuid not null references memory_fragments (id) on delete cascade,
        version integer not null,
        content jsonb not null,
        provenance jsonb not null,
        created_at timestamptz not null default now(),
        primary key (fragment_id, version)
      );
      ${tenantTable('memory_fragment_versions')}
    `);
  },
};
