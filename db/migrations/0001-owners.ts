/** Who owns things (tenants, workspaces, keys) and what they register (agents, tools). */
import type { Migration } from './migration.ts';

export const owners: Migration = {
  name: '0001-owners',
  up: async (knex) => {
    await knex.raw(`
      create table tenants (
        id uuid primary key,
        name text not null,
        plan_tier text not null default 'standard',
        settings jsonb not null default '{}',
        -- raised by every change of what is always current: policies, deleted tools
        governance_version bigint not null default 1,
        suspended_by text check (suspended_by in ('operator', 'tenant')),
        created_at timestamptz not null default now()
      );

      create table workspaces (
        id uuid primary key,
        tenant_id uuid not null references tenants,
        name text not null,
        created_at timestamptz not null default now()
      );
      create unique index workspaces_name on workspaces (tenant_id, name);

      create table api_keys (
        id uuid primary key,
        tenant_id uuid not null references tenants,
        workspace_id uuid references workspaces,
        name text not null,
        key_hash bytea not null,
        scopes text[] not null,
        expires_at timestamptz,
        revoked_at timestamptz,
        created_at timestamptz not null default now()
      );
      create unique index api_keys_hash on api_keys (key_hash);
      create index api_keys_page on api_keys (tenant_id, id);

      create table agents (
        id uuid primary key,
        tenant_id uuid not null references tenants,
        workspace_id uuid not null references workspaces,
        name text not null,
        status text not null check (status in ('active', 'idle', 'busy', 'offline', 'deprecated')),
        current_version text not null,
        last_heartbeat_at timestamptz,
        suspended_at timestamptz,
        created_at timestamptz not null default now(),
        updated_at timestamptz not null default now()
      );
      create index agents_page on agents (tenant_id, id);
      create index agents_suspended on agents (tenant_id) where suspended_at is not null;

      create table agent_versions (
        agent_id uuid not null references agents,
        version text not null,
        ordinal integer not null,
        tenant_id uuid not null,
        definition jsonb not null,
        content_hash text not null,
        created_at timestamptz not null default now(),
        primary key (agent_id, version)
      );
      create unique index agent_versions_page on agent_versions (agent_id, ordinal);

      create table tools (
        id uuid primary key,
        tenant_id uuid not null references tenants,
        name text not null,
        status text not null check (status in ('registered', 'deleted')),
        current_version text not null,
        suspended_at timestamptz,
        created_at timestamptz not null default now(),
        updated_at timestamptz not null default now()
      );
      create unique index tools_name on tools (tenant_id, name) where status = 'registered';
      create index tools_page on tools (tenant_id, id);
      create index tools_suspended on tools (tenant_id) where suspended_at is not null;

      create table tool_versions (
        tool_id uuid not null references tools,
        version text not null,
        ordinal integer not null,
        tenant_id uuid not null,
        definition jsonb not null,
        content_hash text not null,
        created_at timestamptz not null default now(),
        primary key (tool_id, version)
      );
      create unique index tool_versions_page on tool_versions (tool_id, ordinal);

      create table idempotency_keys (
        tenant_id uuid not null,
        route text not null,
        key text not null,
        body_digest text not null,
        status integer,
        response jsonb,
        created_at timestamptz not null default now(),
        primary key (tenant_id, route, key)
      );
      create index idempotency_keys_age on idempotency_keys (created_at);
    `);
  },
};
