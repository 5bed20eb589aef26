/** Looks at a run that has children: a workflow, or one that delegates. */
import type { Context } from '../governance/context.ts';
import { advanceDelegations } from './advance-delegations.ts';
import { advanceWorkflow, type WorkflowOutcome } from './advance-workflow.ts';

/** Takes it as far as it can go now. Infrastructure errors throw. */
export async function advanceParent(
  context: Context,
  ref: { tenantId: string; runId: string; childId?: string | undefined },
  stop?: AbortSignal,
): Promise<Exclude<WorkflowOutcome, 'no workflow'>> {
  // Which it is shows under its lock: a look at a workflow, of which there are most, is one transaction.
  const outcome = await advanceWorkflow(context, ref, stop);
  return outcome === 'no workflow' ? advanceDelegations(context, ref) : outcome;
}
