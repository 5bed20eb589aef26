/** Stored budgets and their usage. See `db/functions/budgets.sql`. */
import type { BudgetStanding, RunBudget } from '../core/budget.ts';
import type { Database, Tx } from './database.ts';
import { fetchRows, selectFrom } from './query-builder.ts';
import { edgeEvent } from './run-log.ts';

export interface BudgetRow {
  id: string;
  workspace_id: string | null;
  agent_id: string | null;
  name: string;
  period: 'day' | 'month' | 'total';
  max_tokens: number | null;
  max_cost_usd: string | null;
  soft_limit: string | null;
  on_soft_limit: 'warn' | 'ask' | null;
  created_at: Date;
  updated_at: Date;
  /** Start of the current period. */
  period_start: string;
  tokens: string;
  cost_usd: string;
  open_tokens: string;
  open_cost_usd: string;
}

const COLUMNS = `b.id, b.workspace_id, b.agent_id, b.name, b.period, b.max_tokens, b.max_cost_usd, b.soft_limit,
  b.on_soft_limit, b.created_at, b.updated_at, s.period_start, s.tokens, s.cost_usd, s.open_tokens, s.open_cost_usd`;
const TABLES = 'budgets b cross join lateral budget_spending(b, null, null, null) s';

interface NewBudget {
  id: string;
  tenantId: string;
  workspaceId: string | null;
  agentId: string | null;
  name: string;
  period: BudgetRow['period'];
  limits: BudgetLimits;
}

export interface BudgetLimits {
  max_tokens: number | null;
  max_cost_usd: number | null;
  soft_limit: number | null;
  on_soft_limit: 'warn' | 'ask' | null;
}

export async function insertBudget(tx: Tx, budget: NewBudget): Promise<BudgetRow> {
  const { id, tenantId, workspaceId, agentId, name, period, limits } = budget;
  await tx.query(
    `insert into budgets (id, tenant_id, workspace_id, agent_id, name, period, max_tokens, max_cost_usd, soft_limit, on_soft_limit)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
    [id, tenantId, workspaceId, agentId, name, period, ...valuesOf(limits)],
  );
  const row = await findBudget(tx, id);
  if (!row) throw new Error('An inserted budget did not come back.');
  return row;
}

/** Locks a budget's row until the transaction ends. */
export async function lockBudget(tx: Tx, id: string): Promise<void> {
  await tx.query('select from budgets where id = $1 for update', [id]);
}

/** Changes a budget's limits and name, but not its owner or period. */
export async function updateBudget(tx: Tx, id: string, change: { name: string; limits: BudgetLimits }): Promise<void> {
  await tx.query(
    `update budgets set name = $2, max_tokens = $3, max_cost_usd = $4, soft_limit = $5, on_soft_limit = $6,
       updated_at = now() where id = $1`,
    [id, change.name, ...valuesOf(change.limits)],
  );
}

/** Deletes a budget and its usage. */
export async function deleteBudget(tx: Tx, id: string): Promise<void> {
  await tx.query('delete from budgets where id = $1', [id]);
}

/** A budget; only of this workspace, if given. */
export async function findBudget(tx: Tx, id: string, workspaceId?: string): Promise<BudgetRow | undefined> {
  const [row] = await fetchRows<BudgetRow>(
    tx,
    selectFrom(COLUMNS, TABLES, [
      ['b.id', '=', id],
      ['b.workspace_id', '=', workspaceId],
    ]),
  );
  return row;
}

/** A page of budgets, newest first; only of one workspace, if given. */
export async function listBudgets(
  tx: Tx,
  page: { before?: string | undefined; limit: number; workspaceId?: string | undefined },
): Promise<BudgetRow[]> {
  const query = selectFrom(COLUMNS, TABLES, [
    ['b.id', '<', page.before],
    ['b.workspace_id', '=', page.workspaceId],
  ]);
  return fetchRows<BudgetRow>(tx, query.orderBy('b.id', 'desc').limit(page.limit));
}

/** Owners of a tenant's budgets: workspaces, agents, or the tenant itself. */
export async function listBudgetScopes(tx: Tx): Promise<{ workspace_id: string | null; agent_id: string | null }[]> {
  return tx.query('select distinct workspace_id, agent_id from budgets');
}

/** The budget that stopped a run, as logged; `was_asked`: a person was asked whether to exceed its soft limit. */
export async function findStoppingBudget(
  tx: Tx,
  runId: string,
): Promise<{ key: string; name: string | null; was_asked: boolean } | undefined> {
  const where = `(e.type = 'budget.exceeded' or e.type = 'budget.warned' and e.payload ? 'approval_id')`;
  const [row] = await tx.query<{ key: string; name: string | null; was_asked: boolean }>(
    `select e.payload->>'key' as key, e.payload->>'name' as name, e.type = 'budget.warned' as was_asked
     from ${edgeEvent('last', { run: '$1', where })} e`,
    [runId],
  );
  return row;
}

/** A model call with a committed reservation. */
export interface ReservedCall {
  tenant_id: string;
  run_id: string;
  root_run_id: string;
  /** For a child: the runs above it, root first, with their budgets. */
  ancestors?: { run_id: string; budget?: RunBudget | undefined }[];
  workspace_id: string;
  agent_id: string;
  step: number;
  fence: number;
  run_budget?: RunBudget | undefined;
  /** Tokens, with their cost in USD; null if the price is unknown. */
  input: number;
  input_cost: string | null;
  output: number;
  output_cost: string | null;
  /** Minimum of output tokens for which the call is worthwhile. */
  least: number;
}

/** `waits`: there will be room once calls under way have settled. `short`: key of the budget without room. */
export type BudgetVerdict = { standings: BudgetStanding[] } & (
  | { fits: true; output: number }
  | { fits: false; waits: boolean; short: string }
);

/** Whether a call may be made, and with how many output tokens; adjusts or releases its reservation. */
export async function checkBudgets(db: Database, call: ReservedCall): Promise<BudgetVerdict> {
  const [row] = await db.call<{ result: BudgetVerdict }>({
    name: 'check_budgets',
    text: 'select check_budgets($1::jsonb) as result',
    values: [JSON.stringify(call)],
  });
  if (!row) throw new Error('a function of the database answered no row');
  return row.result;
}

/** Selects budgets: a run's, or without a run an agent's or a workspace's. */
interface Budgeted {
  tenant_id: string;
  workspace_id: string;
  run_id: string | null;
  root_run_id: string | null;
  agent_id: string | null;
  run_budget?: RunBudget | undefined;
  ancestors?: ReservedCall['ancestors'] | undefined;
}

/** The budgets that apply, with spent and reserved amounts. */
export async function readStandings(tx: Tx, of: Budgeted): Promise<BudgetStanding[]> {
  const rows = await tx.query<{ standing: BudgetStanding }>(
    'select budget_standing_json(to_jsonb(s)) as standing from budget_standings($1::jsonb) s',
    // Excludes no reservation: none has this step and fence.
    [JSON.stringify({ ...of, step: 0, fence: 0 })],
  );
  return rows.map(({ standing }) => standing);
}

/** Tenants with reservations to be added up, in random order; for maintenance. */
export async function listReservingTenants(tx: Tx): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    'select id from (select distinct tenant_id as id from reservations where not rolled_up) t order by random()',
  );
  return rows.map(({ id }) => id);
}

/** Settles open reservations of lost drivers. */
export async function settleLostReservations(tx: Tx, tenantId: string, quietMs: number): Promise<number> {
  const [row] = await tx.query<{ lost: number }>('select settle_lost_reservations($1, $2) as lost', [
    tenantId,
    quietMs,
  ]);
  return row?.lost ?? 0;
}

/** Adds up to `most` settled reservations to the usage of budgets. */
export async function rollUpBudgets(tx: Tx, tenantId: string, most: number): Promise<number> {
  const [row] = await tx.query<{ rolled: number }>('select roll_up_budgets($1, $2) as rolled', [tenantId, most]);
  return row?.rolled ?? 0;
}

export interface BudgetDrift {
  run_id: string | null;
  budget_id: string | null;
  step: number | null;
  what: string;
}

/**
 * Reservations that differ from a tenant's model calls, and usage that differs from the reservations, for the days for which
 * all of them are kept.
 */
export async function listBudgetDrift(tx: Tx, tenantId: string, days: number): Promise<BudgetDrift[]> {
  return tx.query<BudgetDrift>('select * from budget_drift($1, current_date - $2::int)', [tenantId, days]);
}

function valuesOf({ max_tokens, max_cost_usd, soft_limit, on_soft_limit }: BudgetLimits): unknown[] {
  return [max_tokens, max_cost_usd, soft_limit, on_soft_limit];
}
