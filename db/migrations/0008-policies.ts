/** Policies with their immutable versions, and what the gate decided by them. */
import type { Migration } from './index.ts';
import { tenantTable } from './tenant-table.ts';

const APPROVALS = `
-- What is asked about a plan: every step that waits, with its exact arguments.
create function steps_of(calls jsonb) returns jsonb language sql stable as $$
  select jsonb_build_object('steps', jsonb_agg(jsonb_build_object('tool_call_id', k.id, 'tool', k.name, 'arguments',
      k.arguments) order by k.place))
    from tool_calls k where k.id in (select jsonb_array_elements_text(calls)::uuid) having count(*) > 0
$$;

create function apply_plans(list jsonb) returns void language plpgsql as $$
declare x jsonb;
begin
  for x in select jsonb_array_elements(list) loop
    if x ? 'steps' then
      insert into plans select * from jsonb_populate_record(null::plans, x);
    else
      update plans set status = x->>'status', reason = coalesce(x->>'reason', reason),
          approval_id = coalesce((x->>'approval_id')::uuid, approval_id),
          approved_at = coalesce((x->>'approved_at')::timestamptz, approved_at),
          started_at = coalesce((x->>'started_at')::timestamptz, started_at),
          completed_at = coalesce((x->>'completed_at')::timestamptz, completed_at)
        where id = (x->>'id')::uuid;
    end if;
  end loop;
end $$;

-- A part of commit_run. What is asked about a call has the arguments of its row in the ledger.
create function apply_approvals(tenant uuid, run uuid, list jsonb) returns void language plpgsql as $$
declare x jsonb;
begin
  for x in select jsonb_array_elements(list) loop
    if x->>'status' = 'pending' then
      insert into approvals (id, tenant_id, run_id, turn_id, kind, tool_call_id, plan_id, tool, arguments, digest, message,
          policy, four_eyes, status, expires_at, created_at)
        select (x->>'id')::uuid, tenant, run, (x->>'turn_id')::uuid, x->>'kind', k.id, (x->>'plan_id')::uuid, x->>'tool',
          coalesce(k.arguments, x->'arguments', steps_of(x->'calls')),
          x->>'digest', x->>'message', x->'policy', (x->>'four_eyes')::boolean, 'pending', now() + (x->>'expires_in_seconds')::numeric * interval '1 second', now()
        from (select) asked left join tool_calls k on k.id = (x->>'tool_call_id')::uuid;
    else
      update approvals set status = x->>'status', digest = coalesce(x->>'digest', digest), reason = x->>'reason',
          decision = x->>'decision', policy = case when x ? 'policy' then nullif(x->'policy', 'null') else policy end, decided_by = (x->>'decided_by')::uuid,
          decided_at = now()
        where id = (x->>'id')::uuid and status = 'pending';
    end if;
  end loop;
end $$;
`;

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
    // Knex would take jsonb's operator ? for a binding.
    await knex.raw(APPROVALS.replaceAll('?', '\\?'));
    const changing = ['policies', 'policy_decisions', 'plans'].map((table) => tenantTable(table));
    await knex.raw([...changing, tenantTable('policy_versions', 'select, insert')].join('\n'));
  },
};
