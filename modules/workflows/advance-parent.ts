/** Looks at a run that has children: a workflow, or one that delegates. */
import { sendJobs } from '../../jobs/send-jobs.ts';
import { lookJobId, SUBTASKS } from '../../jobs/subtasks.ts';
import type { Context } from '../governance/context.ts';
import { advanceDelegations } from './advance-delegations.ts';
import { lookAtWorkflow, type LookedAt, type LookRequest } from './advance-workflow.ts';
import { planOrAnswer, type Need } from './planner/plan-and-check.ts';

/** Takes it as far as it can go now; where a model has to be asked, the answer says so. Infrastructure errors throw. */
export async function lookAtParent(context: Context, look: LookRequest): Promise<LookedAt> {
  // Which it is shows under its lock: a look at a workflow, of which there are most, is one transaction.
  const looked = await lookAtWorkflow(context, look);
  return looked === 'no workflow' ? { outcome: await advanceDelegations(context, look) } : looked;
}

/** The same, and a model that has to be asked is asked. */
export async function advanceParent(
  context: Context,
  look: LookRequest,
  stop: AbortSignal,
): Promise<LookedAt['outcome']> {
  const { outcome, need } = await lookAtParent(context, look);
  if (need) await askFor(context, { ...look, stop }, need);
  return outcome;
}

/** The same for whoever looks at many: where a model has to be asked, which takes its time, a job is sent that asks it. */
export async function lookInPassing(context: Context, look: LookRequest): Promise<void> {
  const { need } = await lookAtParent(context, look);
  if (need) await sendLook(context, look);
}

/** Another process, or this one later, looks. */
export async function sendLook(
  { queues, order }: Pick<Context, 'queues' | 'order'>,
  { tenantId, runId }: Pick<LookRequest, 'tenantId' | 'runId'>,
): Promise<void> {
  const job_id = lookJobId(runId, new Date());
  const payload = { tenantId, runId };
  await sendJobs(queues, [{ queue: SUBTASKS.name, job_id, payload, priority: order.next(tenantId) }]);
}

/** Asks the model of which a look has said that it has to be asked. */
export function askFor(
  context: Context,
  { tenantId, runId, stop }: { tenantId: string; runId: string; stop: AbortSignal },
  need: Need,
): Promise<void> {
  return planOrAnswer(context, { tenantId, runId, stop }, need);
}
