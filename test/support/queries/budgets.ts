/** Budgets and what is set aside of them, as tests read and change them. */
import { newId } from '../../../lib/new-id.ts';
import { row, rows, tamper, type Owner, type Tenant } from './access.ts';

export async function removeBudgets(tenant: Tenant): Promise<void> {
  await rows(tenant, 'delete from budgets');
}

/** A budget of the whole tenant with room for a single token, behind the back of processes that know its budgets. */
export async function addTinyBudget(tenant: Tenant): Promise<void> {
  const sql = `insert into budgets (id, tenant_id, name, period, max_tokens) values ($1, $2, 'small', 'total', 1)`;
  await rows(tenant, sql, newId(), tenant.tenantId);
}

/** Behind the back of processes that know the budget. */
export async function lowerBudget(tenant: Tenant, id: string, maxTokens: number): Promise<void> {
  await rows(tenant, 'update budgets set max_tokens = $2 where id = $1', id, maxTokens);
}

/** As if every budget had been there for 60 days. */
export function ageBudgets(owner: Owner): Promise<void> {
  return tamper(owner, `update budgets set created_at = created_at - interval '60 days'`);
}

/** What is spent of a budget, and what is set aside, in all its time. */
export function spendingOfBudget(
  tenant: Tenant,
  id: string,
): Promise<{ tokens: string; cost_usd: string; open_tokens: string }> {
  return row(
    tenant,
    'select s.tokens, s.cost_usd, s.open_tokens from budgets b, budget_spending(b, null, null, null) s where b.id = $1',
    id,
  );
}

/** What has been added up of the tenant's only budget. */
export function usageOfBudget(tenant: Tenant): Promise<object> {
  return row(tenant, 'select tokens, cost_usd, steps from budget_usage');
}

/** How many runs have been added up in the usage of all days. */
export async function countAddedRuns(tenant: Tenant): Promise<number> {
  const sql = `select coalesce(sum(count), 0)::int as runs from usage_daily where kind = 'run'`;
  return (await row<{ runs: number }>(tenant, sql)).runs;
}

/** As if so many tokens of a daily budget had been used today. */
export async function useUpToday(tenant: Tenant, budget: string, tokens: number): Promise<void> {
  await rows(
    tenant,
    `insert into budget_usage (budget_id, period_start, tenant_id, tokens, cost_usd, steps)
       values ($1, budget_period_start('day', now()), $2, $3, 0, 1)`,
    budget,
    tenant.tenantId,
    tokens,
  );
}

interface StoredReservation {
  step: number;
  state: string;
  tokens: number;
  cost_usd: string | null;
}

/** What a run has set aside, in order. */
export function reservationsOfRun(tenant: Tenant, run: string): Promise<StoredReservation[]> {
  const sql = 'select step, state, tokens, cost_usd from reservations where run_id = $1 order by step, fence';
  return rows(tenant, sql, run);
}

/** The tokens that each run below a root has set aside or used. */
export function tokensBelow(tenant: Tenant, root: string): Promise<{ run_id: string; tokens: string }[]> {
  const sql = `select run_id, sum(tokens) as tokens from reservations where root_run_id = $1 and state <> 'released' group by 1`;
  return rows(tenant, sql, root);
}

/** As if a run had set aside an hour ago what it has. */
export async function ageReservations(tenant: Tenant, run: string): Promise<void> {
  await rows(tenant, `update reservations set created_at = created_at - interval '1 hour' where run_id = $1`, run);
}

/** As if a run had asked its model so many times more, each with its reservation, in tables that nobody has analyzed since. */
export async function addCalls(owner: Owner, run: string, count: number): Promise<void> {
  await tamper(
    owner,
    `insert into run_log (tenant_id, workspace_id, run_id, seq, turn_id, step, type, schema_version, actor, payload, occurred_at)
       select tenant_id, workspace_id, run_id, 1000 + g, turn_id, 1000 + g, type, schema_version, actor, payload, occurred_at
         from run_events cross join generate_series(1, $2::int) g where run_id = $1 and type = 'model.responded' and step = 1`,
    run,
    count,
  );
  await tamper(
    owner,
    `insert into reservations select (jsonb_populate_record(r, jsonb_build_object('step', 1000 + g))).*
       from reservations r cross join generate_series(1, $2::int) g where run_id = $1 and step = 1`,
    run,
    count,
  );
}

export async function removeCalls(owner: Owner, run: string): Promise<void> {
  await tamper(owner, 'delete from run_log where run_id = $1 and seq > 1000', run);
  await tamper(owner, 'delete from reservations where run_id = $1 and step > 1000', run);
}
