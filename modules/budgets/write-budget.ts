/** Makes and changes budgets of a tenant, a workspace or an agent. */
import { forbidden, impossible } from '../../core/errors.ts';
import { newId } from '../../lib/new-id.ts';
import { findAgent } from '../../db/agents.ts';
import {
  deleteBudget,
  insertBudget,
  lockBudget,
  updateBudget,
  type BudgetLimits,
  type BudgetRow,
} from '../../db/budgets.ts';
import type { Tx } from '../../db/database.ts';
import { hasWorkspace } from '../../db/tenants.ts';
import type { Caller } from '../../core/caller.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { requireBudget } from './read-budgets.ts';

interface BudgetRequest {
  name?: string | undefined;
  workspace_id?: string | undefined;
  agent_id?: string | undefined;
  period: BudgetRow['period'];
  max_tokens?: number | undefined;
  max_cost_usd?: number | undefined;
  soft_limit?: number | undefined;
  on_soft_limit?: 'warn' | 'ask' | undefined;
}

/** New limits; null removes one, absent ones stay. */
type BudgetPatch = { [Field in keyof BudgetLimits]?: BudgetLimits[Field] | undefined } & {
  name?: string | undefined;
};

/**
 * Makes a budget that counts from now on. A key bound to a workspace can only make budgets of that workspace (403).
 * Throws 422 for an unknown workspace or agent.
 */
export async function createBudget(tx: Tx, caller: Caller, request: BudgetRequest): Promise<BudgetRow> {
  const workspaceId = request.workspace_id ?? caller.boundWorkspaceId ?? null;
  if (caller.boundWorkspaceId !== undefined && workspaceId !== caller.boundWorkspaceId) {
    throw forbidden('This key is bound to its workspace and cannot make budgets for another.');
  }
  if (workspaceId !== null && !(await hasWorkspace(tx, workspaceId))) {
    throw impossible('There is no such workspace.', [{ path: 'body.workspace_id', message: 'is not a workspace' }]);
  }
  const agentId = request.agent_id ?? null;
  if (agentId !== null && !(await findAgent(tx, agentId, workspaceId ?? caller.workspaceId))) {
    throw impossible('There is no such agent.', [{ path: 'body.agent_id', message: 'is not an agent' }]);
  }
  const row = await insertBudget(tx, {
    id: newId(),
    tenantId: caller.tenantId,
    workspaceId,
    agentId,
    name: request.name ?? `${agentId ? 'agent' : workspaceId ? 'workspace' : 'tenant'} by ${request.period}`,
    period: request.period,
    limits: limitsOf(request),
  });
  await auditBudget(tx, caller, { action: 'budget.created', row });
  return row;
}

/** Changes limits and name; spending stays. Throws 404, and 422 if no limit would be left. */
export async function changeBudget(
  tx: Tx,
  caller: Caller,
  { id, patch }: { id: string; patch: BudgetPatch },
): Promise<BudgetRow> {
  // Two changes at the same time are made one after the other: each writes all limits.
  await lockBudget(tx, id);
  const current = await requireBudget(tx, caller, id);
  const limits: BudgetLimits = {
    max_tokens: current.max_tokens,
    max_cost_usd: numberOf(current.max_cost_usd),
    soft_limit: numberOf(current.soft_limit),
    on_soft_limit: current.on_soft_limit,
  };
  const { name = current.name, ...changed } = patch;
  const next = { ...limits, ...Object.fromEntries(Object.entries(changed).filter(([, value]) => value !== undefined)) };
  if (next.max_tokens === null && next.max_cost_usd === null) {
    throw impossible('A budget needs a limit: max_tokens or max_cost_usd.');
  }
  await updateBudget(tx, id, { name, limits: next });
  const row = await requireBudget(tx, caller, id);
  await auditBudget(tx, caller, { action: 'budget.updated', row });
  return row;
}

/** Deletes a budget with its counts. Throws 404. */
export async function removeBudget(tx: Tx, caller: Caller, id: string): Promise<void> {
  const row = await requireBudget(tx, caller, id);
  await deleteBudget(tx, id);
  await auditBudget(tx, caller, { action: 'budget.deleted', row });
}

async function auditBudget(
  tx: Tx,
  caller: Caller,
  { action, row }: { action: 'budget.created' | 'budget.updated' | 'budget.deleted'; row: BudgetRow },
): Promise<void> {
  const { id, name, workspace_id, agent_id, period, max_tokens, max_cost_usd } = row;
  const details = { name, workspace_id, agent_id, period, max_tokens, max_cost_usd };
  await recordAudit(tx, caller, { action, target: ['budget', id], details });
}

function limitsOf(request: BudgetRequest): BudgetLimits {
  const { max_tokens = null, max_cost_usd = null, soft_limit = null, on_soft_limit = null } = request;
  return { max_tokens, max_cost_usd, soft_limit, on_soft_limit };
}

function numberOf(decimal: string | null): number | null {
  return decimal === null ? null : Number(decimal);
}
