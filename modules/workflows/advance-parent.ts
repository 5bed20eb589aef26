/** Looks at a run that has children: a workflow, or one that delegates. */
import { findRunRow } from '../../db/runs.ts';
import type { Context } from '../governance/context.ts';
import { advanceDelegations } from './advance-delegations.ts';
import { advanceWorkflow, type WorkflowOutcome } from './advance-workflow.ts';

/** Takes it as far as it can go now. Infrastructure errors throw. */
export async function advanceParent(
  context: Context,
  ref: { tenantId: string; runId: string; childId?: string | undefined },
  stop?: AbortSignal,
): Promise<WorkflowOutcome> {
  const run = await context.db.withTenant(ref.tenantId, (tx) => findRunRow(tx, ref.runId));
  if (!run) return 'passed';
  return run.kind === 'workflow' ? advanceWorkflow(context, ref, stop) : advanceDelegations(context, ref);
}
