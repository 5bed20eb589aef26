/** Passes a run's call through the gate again, by the current policies, in a transaction. */
import type { AgentDefinition } from '../../core/definition.ts';
import type { Tx } from '../../db/database.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Context } from './context.ts';
import { gateCall, type GatedRun } from './gate-call.ts';
import type { GateDecision } from './gate.ts';
import type { Governance } from './governance.ts';
import { findUsedUpBudget } from '../budgets/find-used-up-budget.ts';

interface CallToReauthorize {
  run: RunRow;
  /** Loaded if absent. */
  pinned?: Pick<GatedRun, 'definition' | 'tools'> | undefined;
  name: string;
  arguments: Record<string, unknown>;
  step?: number | undefined;
  /** As stored in the ledger. */
  taintedBy: readonly number[] | null | undefined;
}

/** The gate's current decision. The number of calls in the turn is not checked again: it was checked on request. */
export async function reauthorizeCall(
  context: Pick<Context, 'governance' | 'definitions' | 'tools'>,
  tx: Tx,
  { run, pinned, step = run.steps, ...call }: CallToReauthorize,
): Promise<{ decision: GateDecision; governance: Governance; definition: AgentDefinition }> {
  const { definition, tools } = pinned ?? (await context.definitions.loadIn(tx, pinsOf(run)));
  const governance = await context.governance.current(tx, run.tenant_id);
  const usedUp = await findUsedUpBudget(tx, run);
  const decision = gateCall({ context, run, definition, tools, governance, usedUp }, { ...call, callsInTurn: 0, step });
  return { decision, governance, definition };
}

function pinsOf(run: RunRow) {
  return { tenantId: run.tenant_id, agentId: run.agent_id, agentVersion: run.agent_version, tools: run.pinned.tools };
}
