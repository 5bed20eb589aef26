/**
 * Budgets, what is set aside from them (`reservations`: one row for each model call that a budget applies to), and what
 * is spent of them (`budget_usage`: the rows that have settled, added up). A budget's standing is its usage and the rows
 * that are not in it yet, so that no row is written by many runs at once and none is read twice.
 */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

const TABLES = `
create table budgets (
  id uuid primary key,
  tenant_id uuid not null references tenants,
  workspace_id uuid,
  agent_id uuid,
  name text not null,
  period text not null check (period in ('day', 'month', 'total')),
  max_tokens bigint,
  max_cost_usd numeric,
  soft_limit numeric,
  on_soft_limit text check (on_soft_limit in ('warn', 'ask')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index budgets_page on budgets (tenant_id, id);

create table budget_usage (
  budget_id uuid not null references budgets on delete cascade,
  period_start date not null,
  tenant_id uuid not null,
  tokens numeric not null,
  cost_usd numeric not null,
  steps bigint not null,
  primary key (budget_id, period_start)
);

-- Open: the call is under way. Settled: at its real use. Estimated: nobody knows, so at what was set aside. Released: not made.
create domain reservation_state as text check (value in ('open', 'settled', 'estimated', 'released'));

create table reservations (
  run_id uuid not null,
  step integer not null,
  fence integer not null,
  tenant_id uuid not null,
  workspace_id uuid not null,
  agent_id uuid not null,
  root_run_id uuid not null,
  state reservation_state not null,
  tokens bigint not null,
  cost_usd numeric,
  rolled_up boolean not null default false,
  created_at timestamptz not null,
  settled_at timestamptz,
  primary key (run_id, step, fence)
);
create index reservations_by_root on reservations (root_run_id);
create index reservations_fresh on reservations (tenant_id) where not rolled_up;
create index reservations_open on reservations (created_at) where state = 'open';
`;

const ISOLATION = ['budgets', 'budget_usage', 'reservations'].map((table) => tenantTable(table));

const MAINTENANCE = `
create policy maintenance_find_reservations on reservations for select to drover_maintenance using (true);
grant select on reservations to drover_maintenance;
`;

export const budgets: Migration = {
  name: '0006-budgets',
  up: async (knex) => {
    for (const sql of [TABLES, ...ISOLATION, MAINTENANCE]) await knex.raw(sql);
  },
};
