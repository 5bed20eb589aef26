/** Budgets of a tenant, its workspaces and its agents. */
import { z } from 'zod';
import { budgetLimits, DEFAULT_SOFT_LIMIT } from '../core/budget.ts';
import { idempotently } from '../modules/tenants/idempotency.ts';
import { readBudgets, requireBudget, type BudgetRow } from '../modules/budgets/read-budgets.ts';
import { changeBudget, createBudget, removeBudget } from '../modules/budgets/write-budget.ts';
import { agentIdParam } from './kit/external-ids.ts';
import { pageFields, pageOf, pageQuery } from './kit/paging.ts';
import { defineRoute, type Route } from './kit/route.ts';
import { idParam } from './kit/validate.ts';

const name = z.string().trim().min(1).max(200);
const period = z.enum(['day', 'month', 'total']);
const amount = z.object({ tokens: z.number(), cost_usd: z.number() });

const budget = z
  .object({
    id: z.uuid(),
    budget_id: z.uuid(),
    name: z.string(),
    scope: z.enum(['tenant', 'workspace', 'agent']),
    workspace_id: z.uuid().nullable(),
    agent_id: z.uuid().nullable(),
    period: period.describe('Days and months begin at midnight UTC.'),
    max_tokens: z.number().nullable(),
    max_cost_usd: z.number().nullable(),
    soft_limit: z.number(),
    on_soft_limit: z.enum(['warn', 'ask']),
    period_start: z.iso.date().nullable().describe('Null where the period is `total`.'),
    spent: amount.describe('In the current period, by calls that have ended.'),
    reserved: amount.describe('Set aside for calls under way.'),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: 'Budget' });

function present(row: BudgetRow): z.input<typeof budget> {
  const { max_cost_usd: maxCost, soft_limit: softLimit, period_start: start } = row;
  return {
    id: row.id,
    budget_id: row.id,
    name: row.name,
    scope: row.agent_id ? 'agent' : row.workspace_id ? 'workspace' : 'tenant',
    workspace_id: row.workspace_id,
    agent_id: row.agent_id,
    period: row.period,
    max_tokens: row.max_tokens,
    max_cost_usd: maxCost === null ? null : Number(maxCost),
    soft_limit: softLimit === null ? DEFAULT_SOFT_LIMIT : Number(softLimit),
    on_soft_limit: row.on_soft_limit ?? 'warn',
    period_start: row.period === 'total' ? null : start,
    spent: { tokens: Number(row.tokens), cost_usd: Number(row.cost_usd) },
    reserved: { tokens: Number(row.open_tokens), cost_usd: Number(row.open_cost_usd) },
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

const create = defineRoute({
  method: 'post',
  path: '/v1/budgets',
  access: 'admin',
  summary: 'Make a budget of the tenant, a workspace or an agent; it counts from now on',
  idempotent: true,
  body: z
    .strictObject({
      name: name.optional(),
      workspace_id: idParam.optional(),
      agent_id: agentIdParam.optional(),
      period,
      ...budgetLimits,
    })
    .refine((body) => body.max_tokens ?? body.max_cost_usd, { message: 'names no limit: max_tokens or max_cost_usd' }),
  responses: { 201: budget },
  async handle({ caller, body, context, idempotency }) {
    const answer = await idempotently(context, idempotency, async (tx) => ({
      status: 201,
      body: present(await createBudget(tx, caller, body)),
    }));
    context.budgets.forget(caller.tenantId);
    return answer;
  },
});

const list = defineRoute({
  method: 'get',
  path: '/v1/budgets',
  access: 'runs:read',
  summary: 'List budgets with what is spent of them, newest first',
  query: pageQuery(),
  responses: { 200: pageFields('budgets', budget) },
  async handle({ caller, query, context }) {
    const { limit, cursor: before } = query;
    const workspaceId = caller.boundWorkspaceId;
    const rows = await context.db.withTenant(caller.tenantId, (tx) =>
      readBudgets(tx, { before, limit: limit + 1, workspaceId }),
    );
    const { items, ...page } = pageOf(rows, limit, (row) => row.id);
    return { status: 200, body: { budgets: items.map(present), ...page } };
  },
});

const params = z.strictObject({ id: idParam });

const get = defineRoute({
  method: 'get',
  path: '/v1/budgets/:id',
  access: 'runs:read',
  summary: 'Get a budget with what is spent of it',
  params,
  responses: { 200: budget },
  async handle({ caller, params: { id }, context }) {
    const row = await context.db.withTenant(caller.tenantId, (tx) => requireBudget(tx, caller, id));
    return { status: 200, body: present(row) };
  },
});

const patch = defineRoute({
  method: 'patch',
  path: '/v1/budgets/:id',
  access: 'admin',
  summary: 'Change the limits of a budget; what is spent stays',
  params,
  body: z.strictObject({
    name: name.optional(),
    max_tokens: budgetLimits.max_tokens.nullable(),
    max_cost_usd: budgetLimits.max_cost_usd.nullable(),
    soft_limit: budgetLimits.soft_limit.nullable(),
    on_soft_limit: budgetLimits.on_soft_limit.nullable(),
  }),
  responses: { 200: budget },
  async handle({ caller, params: { id }, body, context }) {
    const row = await context.db.withTenant(caller.tenantId, (tx) => changeBudget(tx, caller, { id, patch: body }));
    return { status: 200, body: present(row) };
  },
});

const remove = defineRoute({
  method: 'delete',
  path: '/v1/budgets/:id',
  access: 'admin',
  summary: 'Take a budget away, with what it has counted',
  params,
  responses: { 204: 'empty' },
  async handle({ caller, params: { id }, context }) {
    await context.db.withTenant(caller.tenantId, (tx) => removeBudget(tx, caller, id));
    context.budgets.forget(caller.tenantId);
    return { status: 204 };
  },
});

export const BUDGET_ROUTES: readonly Route[] = [create, list, get, patch, remove];
