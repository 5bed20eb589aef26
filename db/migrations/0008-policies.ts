/** Policies with their immutable versions, and what the gate decided by them. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

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
      create table plans (
        id uuid primary key,
        tenant_id uuid not null,
        run_id uuid not null,
        turn_id uuid not null,
        step integer not null,
        purpose text not null,
        max_risk_level text not null,
        auto_executing boolean not null,
        status text not null check (status in ('proposed', 'approved', 'rejected', 'executing', 'completed',
          'completed_with_errors')),
        steps jsonb not null,
        approval_id uuid,
        reason text,
        created_at timestamptz not null,
        approved_at timestamptz,
        started_at timestamptz,
        completed_at timestamptz
      );
      create index plans_by_run on plans (run_id, turn_id);
      create index policy_decisions_by_policy on policy_decisions (policy_id, created_at) where policy_id is not null;
    `);
    const changing = ['policies', 'policy_decisions', 'plans'].map((table) => tenantTable(table));
    await knex.raw([...changing, tenantTable('policy_versions', 'select, insert')].join('\n'));
  },
};
