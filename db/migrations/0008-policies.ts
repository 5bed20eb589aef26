/** Policies with their immutable versions, and what the gate decided by them. */
import type { Migration } from './index.ts';

export const policies: Migration = {
  name: '0008-policies',
  up: async (knex) => {
    await knex.raw(`
      create table policies (
        id uuid primary key,
        tenant_id uuid not null references tenants,
        name text not null,
        status text not null check (status in ('active', 'deleted')),
        current_version integer not null,
        created_at timestamptz not null default now(),
        updated_at timestamptz not null default now()
      );
      create unique index policies_name on policies (tenant_id, name) where status = 'active';
      create index policies_page on policies (tenant_id, id);

      create table policy_versions (
        policy_id uuid not null references policies,
        version integer not null,
        tenant_id uuid not null,
        definition jsonb not null,
        created_by uuid not null,
        created_at timestamptz not null default now(),
        primary key (policy_id, version)
      );

      -- A projection of policy.decided. What passed the gate without a rule has its row in tool_calls and no other.
      create table policy_decisions (
        tenant_id uuid not null,
        run_id uuid not null,
        seq bigint not null,
        turn_id uuid,
        tool_call_id uuid not null,
        decision text not null check (decision in ('allow', 'block', 'rewrite', 'require_approval')),
        stage text not null,
        policy_id uuid,
        policy_version integer,
        reason text not null,
        created_at timestamptz not null,
        primary key (run_id, seq)
      );
      create index policy_decisions_by_policy on policy_decisions (policy_id, created_at) where policy_id is not null;
    `);
    const tenant = "nullif(current_setting('drover.tenant_id', true), '')::uuid";
    for (const table of ['policies', 'policy_versions', 'policy_decisions']) {
      await knex.raw(`
        alter table ${table} enable row level security;
        alter table ${table} force row level security;
        create policy tenant_isolation on ${table} to drover_app
          using (tenant_id = ${tenant}) with check (tenant_id = ${tenant});
        grant select, insert${table === 'policy_versions' ? '' : ', update, delete'} on ${table} to drover_app;`);
    }
  },
};
