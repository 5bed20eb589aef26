/** Turns an objective for a team into a workflow. */
import type { Caller } from '../../core/caller.ts';
import type { RequestedConfig } from '../../core/run-config.ts';
import type { Context } from '../governance/context.ts';
import { startOnce, type Objective, type StartedObjective } from '../runs/start-objective.ts';
import type { IdempotentAnswer, IdempotentRequest } from '../tenants/idempotency.ts';
import { writeRequested } from './create-workflow.ts';

interface TeamObjectiveRequest {
  /** In the objective's workspace. */
  caller: Caller;
  objective: Objective & { teamId: string };
  budget: RequestedConfig['budget'];
  traceparent?: string | undefined;
  idempotency: IdempotentRequest;
}

/**
 * Starts the workflow, or returns what this request has started before. Throws 404 for an unknown team, 409 for a session's
 * thread, else as `startObjective`.
 */
export async function startTeamObjective(
  context: Context,
  { caller, objective, budget, traceparent, idempotency }: TeamObjectiveRequest,
): Promise<IdempotentAnswer<StartedObjective>> {
  const { tenantId, workspaceId } = caller;
  const { teamId, requestId: name } = objective;
  const settings = { on_subtask_failure: 'fail', execution: 'eager', max_replans: 2 } as const;
  const asked = { caller, name, teamId, settings, budget, traceparent };
  return startOnce(
    context,
    { tenantId, workspaceId, objective, config: { budget }, idempotency },
    (tx, { message, threadId }) => writeRequested(context, tx, { ...asked, threadId, input: { user_query: message } }),
  );
}
