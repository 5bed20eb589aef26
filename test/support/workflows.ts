/** Workflows without a model that plans them, as tests begin and read them. */
import { advanceParent } from '../../modules/workflows/advance-parent.ts';
import type { LookRequest } from '../../modules/workflows/advance-workflow.ts';
import type { Context } from '../../modules/governance/context.ts';
import { createWorkflow, type WorkflowRequest } from '../../modules/workflows/create-workflow.ts';
import { requireWorkflow } from '../../modules/workflows/read-workflows.ts';
import type { Engine } from './engine.ts';

export const subtask = (id: string, ...dependencies: string[]) => ({ id, description: `Do ${id}.`, dependencies });

/** Creates a workflow of these subtasks for the agent; gives its id. */
export async function startWorkflow(
  engine: Engine,
  subtasks: ReturnType<typeof subtask>[],
  more: Pick<WorkflowRequest, 'agentId'> & Partial<WorkflowRequest>,
): Promise<string> {
  const request: WorkflowRequest = {
    caller: engine.caller,
    name: 'test',
    input: { user_query: 'Do it.' },
    definition: { subtasks },
    settings: { on_subtask_failure: 'fail', execution: 'eager', max_replans: 0 },
    idempotency: { tenantId: engine.tenantId, route: 'test', body: null },
    ...more,
  };
  return (await createWorkflow(engine.context, request, ({ id }) => id)).body;
}

/** A workflow and its tasks as they are shown. */
export function readWorkflow(engine: Engine, id: string) {
  return engine.context.db.withTenant(engine.tenantId, (tx) => requireWorkflow(tx, engine.caller, id));
}

/** Looks at a run that has children, as a job does whose worker does not stop. */
export function lookNow(context: Context, look: LookRequest) {
  return advanceParent(context, look, new AbortController().signal);
}
