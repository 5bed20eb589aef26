/** Looks at a run that has children: a workflow, or one that delegates. */
import { sendJobs } from '../../jobs/send-jobs.ts';
import { lookJobId, SUBTASKS } from '../../jobs/subtasks.ts';
import type { Context } from '../governance/context.ts';
import { advanceDelegations } from './advance-delegations.ts';
import { lookAtWorkflow, type LookedAt, type LookRequest } from './advance-workflow.ts';
import { planOrAnswer, type Need } from './planner/plan-and-check.ts';

/** Takes the run as far as it can go now; `need` says what a model has to be asked for. Infrastructure errors throw. */
export async function lookAtParent(context: Context, look: LookRequest): Promise<LookedAt> {
  // The run's kind is read under its lock: so a look at a workflow, the common case, is one transaction.
  const looked = await lookAtWorkflow(context, look);
  return looked === 'no workflow' ? { outcome: await advanceDelegations(context, look) } : looked;
}

/** As `lookAtParent`, and asks the model if needed. */
export async function advanceParent(
  context: Context,
  look: LookRequest,
  stop: AbortSignal,
): Promise<LookedAt['outcome']> {
  const { outcome, need } = await lookAtParent(context, look);
  if (need) await askFor(context, { ...look, stop }, need);
  return outcome;
}

/** As `lookAtParent`, for callers that look at many runs: a job asks the model if needed, which takes time. */
export async function lookInPassing(context: Context, look: LookRequest): Promise<void> {
  const { need } = await lookAtParent(context, look);
  if (need) await sendLook(context, look);
}

/** Sends a job that looks later, in any process. */
export async function sendLook(
  { queues, order }: Pick<Context, 'queues' | 'order'>,
  { tenantId, runId }: Pick<LookRequest, 'tenantId' | 'runId'>,
): Promise<void> {
  const job_id = lookJobId(runId, new Date());
  const payload = { tenantId, runId };
  await sendJobs(queues, [{ queue: SUBTASKS.name, job_id, payload, priority: order.next(tenantId) }]);
}

/** Asks the model for what a look found to be needed. */
export function askFor(
  context: Context,
  { tenantId, runId, stop }: { tenantId: string; runId: string; stop: AbortSignal },
  need: Need,
): Promise<void> {
  return planOrAnswer(context, { tenantId, runId, stop }, need);
}
