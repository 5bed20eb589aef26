/** Passes a call of a run through the gate once more, by the current policies, within a transaction. */
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
  /** Absent if they are still to be loaded. */
  pinned?: Pick<GatedRun, 'definition' | 'tools'> | undefined;
  name: string;
  arguments: Record<string, unknown>;
  step?: number | undefined;
  /** As the ledger has it. */
  taintedBy: readonly number[] | null | undefined;
}

/** What the gate decides now. The number of calls in the turn was checked when the call was requested, and is not checked again. */
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
