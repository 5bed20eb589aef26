/** Passes a run's call through the gate again, by the current policies, in a transaction. */
import type { AgentDefinition } from '../../core/definition.ts';
import type { Tx } from '../../db/database.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Context } from './context.ts';
import type { LedgerCall } from '../../db/commit-run.ts';
import { countCarriedCalls } from '../../db/replay.ts';
import { countCallsBefore } from '../../db/tool-calls.ts';
import { gateCall, type GatedRun } from './gate-call.ts';
import type { GateDecision } from './gate.ts';
import type { Governance } from './governance.ts';
import { findUsedUpBudget } from '../budgets/find-used-up-budget.ts';

interface CallToReauthorize {
  run: RunRow;
  /** Loaded if absent. */
  pinned?: Pick<GatedRun, 'definition' | 'tools'> | undefined;
  /** As in the ledger, perhaps with arguments that a person has edited. */
  call: Pick<LedgerCall, 'id' | 'turn_id' | 'step' | 'name' | 'arguments' | 'tainted_by'>;
}

/**
 * The gate's current decision on a call, as it was when it was requested. The limit of calls in the turn is not checked again: it
 * was checked on request.
 */
export async function reauthorizeCall(
  context: Pick<Context, 'governance' | 'definitions' | 'tools'>,
  tx: Tx,
  { run, pinned, call }: CallToReauthorize,
): Promise<{ decision: GateDecision; governance: Governance; definition: AgentDefinition }> {
  const { definition, tools } = pinned ?? (await context.definitions.loadIn(tx, pinsOf(run)));
  const governance = await context.governance.current(tx, run.tenant_id);
  const usedUp = await findUsedUpBudget(tx, run);
  const { name, arguments: args, step, tainted_by: taintedBy } = call;
  // Only policies ask for it.
  const callsInTurn = governance.rules.length === 0 ? 0 : await callsBefore(tx, run, call);
  const decision = gateCall(
    { context, run, definition, tools, governance, usedUp },
    { name, arguments: args, step, taintedBy, callsInTurn, isRequested: true },
  );
  return { decision, governance, definition };
}

/** A pure call comes into the ledger with its outcome: it is not gated again. */
async function callsBefore(tx: Tx, run: RunRow, { id, turn_id }: CallToReauthorize['call']): Promise<number> {
  const before = (await countCallsBefore(tx, id)) ?? 0;
  const isFork = run.forked_at_seq !== null;
  return before + (isFork ? await countCarriedCalls(tx, { runId: run.id, turnId: turn_id }) : 0);
}

function pinsOf(run: RunRow) {
  return { tenantId: run.tenant_id, agentId: run.agent_id, agentVersion: run.agent_version, tools: run.pinned.tools };
}
