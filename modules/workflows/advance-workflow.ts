/**
 * The scheduler of workflows. Each look is one transaction under the lock of the workflow's run: the ends of children
 * become events of its log, and subtasks that can start are created with the event that says so. So nothing is started
 * twice or lost, however often anybody looks and whenever a process dies.
 */
import { askApproval } from '../../core/decision-events/approvals.ts';
import { statusChanged } from '../../core/decision-events/turns.ts';
import { approvalSeconds } from '../../core/definition.ts';
import { isTerminal, SUBTASK, type NewEvent, type RunStatus } from '../../core/events.ts';
import { digestOf } from '../../core/ids.ts';
import { LIMITS } from '../../core/limits.ts';
import { findAgentVersion } from '../../db/agents.ts';
import { howFar, listScheduledTasks, listTasksUnderWay, type ScheduledTask } from '../../db/scheduled-tasks.ts';
import { changeTask, countTasks, hasOpenChild } from '../../db/tasks.ts';
import { findWorkflow } from '../../db/workflows.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { WaitingJob } from '../../db/commit-run.ts';
import { isDriven } from '../../db/leases.ts';
import type { Tx } from '../../db/database.ts';
import { newId } from '../../lib/new-id.ts';
import { learnSkills, PATIENT } from '../agents/similar-skills.ts';
import type { Context } from '../governance/context.ts';
import { suspendedBy } from '../governance/governance.ts';
import { appendRead, type AppendedChange } from '../run-log/append-to-run.ts';
import { announceCancelled, cancelChildren, type CancelledRun } from '../runs/cancel-children.ts';
import { failure } from '../runs/end-run.ts';
import { concluded, plainConclusion, recordedConclusion, statusAfter } from './advance/conclude.ts';
import { announceChildren } from './advance/announce-children.ts';
import { laterLook, type Delay } from './advance/later-look.ts';
import { HAD_EFFECTS, settleTasks, INPUT_ERASED } from './advance/settle-tasks.ts';
import { foresee, startTasks } from './advance/start-tasks.ts';
import { become, newLook, type WorkflowLook } from './advance/workflow-look.ts';
import { plannerFor } from './planner/ask-planner.ts';
import type { Need } from './planner/plan-and-check.ts';

export interface LookRequest {
  tenantId: string;
  runId: string;
  /** Looks only if the end of one of these children was not seen yet. */
  childIds?: readonly string[] | undefined;
  /** The job in the queue that waits for one of them. */
  below?: WaitingJob | undefined;
}

/** The outcome of a look (`passed`: there was nothing to do), and what a model has to be asked for now. */
export interface LookedAt {
  outcome: 'passed' | 'advanced' | 'ended';
  need?: Need | undefined;
}

/** Takes the workflow as far as it can go now. Infrastructure errors throw. */
export async function lookAtWorkflow(
  context: Context,
  { childIds, below, tenantId, runId }: LookRequest,
): Promise<LookedAt | 'no workflow'> {
  const ref = { tenantId, runId };
  let look: WorkflowLook | undefined;
  let isEnded = false;
  let isWorkflow = true;
  let left: CancelledRun[] = [];
  const reading = appendRead(context, ref, {
    read: (tx) => readWorkflow(context, tx, { tenantId, runId, childIds }),
    async act(run, tx, found) {
      isWorkflow = run.kind === 'workflow';
      const { workflow, isNews } = found;
      // The last look has settled all that had ended by then.
      if (!isWorkflow || !workflow || !isNews) return null;
      if (isTerminal(run.status)) {
        // Processes of an older build may leave open what joined while the answer was made. The log has its end already.
        left = (await cancelChildren(tx, run, 'its workflow has ended')).cancelled;
        return null;
      }
      // By levels, all tasks are needed: what starts next depends on the others.
      const isEager = workflow.settings.execution === 'eager';
      const tasks = isEager ? found.underWay : await listScheduledTasks(tx, runId);
      look = {
        ...newLook({ context, tx, run, workflow, tasks, governance: found.governance }),
        events: beginning(run),
      };
      const change = await advance(look);
      isEnded = isTerminal(statusAfter(run.status, change?.events ?? []));
      return change && { ...change, ...(look.writing && { along: look.writing }) };
    },
  });
  const appended = await reading.catch((error: unknown) => {
    for (const { leave } of look?.held ?? []) leave();
    throw error;
  });
  if (!isWorkflow) return 'no workflow';
  await announceChildren(context, ref, { created: look?.created ?? [], below });
  announceCancelled(context, look?.cancelled ?? left);
  if (look?.untriedSkills) await learnSkills(context, { tenantId, runId, names: look.untriedSkills }, PATIENT);
  if (appended && look?.need) return { outcome: 'advanced', need: look.need };
  if (!appended || appended.events.length === 0) return { outcome: 'passed' };
  return { outcome: isEnded ? 'ended' : 'advanced' };
}

/** Reads what a look needs, in one round trip. */
async function readWorkflow(context: Context, tx: Tx, { tenantId, runId, childIds }: Omit<LookRequest, 'below'>) {
  const [isNews, workflow, underWay, governance] = await Promise.all([
    childIds === undefined || hasOpenChild(tx, childIds),
    findWorkflow(tx, runId),
    listTasksUnderWay(tx, runId),
    context.governance.current(tx, tenantId),
  ]);
  return { isNews, workflow, underWay, governance };
}

function beginning({ status, open_turn_id }: RunRow): NewEvent[] {
  if (status !== 'created') return [];
  const turnId = open_turn_id ?? undefined;
  const way: RunStatus[] = ['initializing', 'planning'];
  return [
    { type: 'run.started', actor: 'system', turn_id: turnId, payload: {} },
    ...way.map((to, index) => statusChanged({ from: way[index - 1] ?? status, to, turnId, actor: 'system' })),
  ];
}

async function advance(look: WorkflowLook): Promise<AppendedChange | null> {
  const { governance, tx, run } = look;
  const [isSimple, foreseen] = await Promise.all([settleTasks(look), foresee(look)]);
  if (isSimple) Object.assign(look, foreseen);
  else look.workers.clear();
  const lost = look.tasks.find((task) => isLost(look, task));
  if (lost) return fail(look, lost);
  // A suspended agent begins nothing; lifting the suspension causes another look.
  if (suspendedBy(governance, run.agent_id)) return stand(look);
  if (look.tasks.length === 0 && (look.progress ?? (await howFar(tx, run.id))) === 'nothing') return ask(look, 'plan');
  const { delay } = await startTasks(look);
  await askAboutFailed(look);
  const failed = look.tasks.find((task) => isLost(look, task));
  if (failed) return fail(look, failed);
  // A task may have joined before the first plan is there.
  if (look.workflow.is_planning || look.workflow.plans === 0) return goOnPlanning(look, delay);
  if (await isDone(look)) return answer(look);
  return wait(look, delay);
}

/** Whether all tasks are completed; a query only if `tasks` leave it open. */
async function isDone({ tasks, tx, run, progress }: WorkflowLook): Promise<boolean> {
  return tasks.every(({ status }) => status === 'completed') && (progress ?? (await howFar(tx, run.id))) === 'done';
}

/** Lets the plan's tasks so far go on; if nobody is writing the rest of the plan any more, has it asked for anew. */
async function goOnPlanning(look: WorkflowLook, delay: Delay | undefined): Promise<AppendedChange | null> {
  const change = await ask(look, 'plan');
  if (!delay) return change;
  return { events: look.events, outbox: [laterLook(look.run, delay)] };
}

/** Answers without a model if the work allows it; else has the planner write one answer and check it. */
async function answer(look: WorkflowLook): Promise<AppendedChange | null> {
  const { context, tx, run, workflow } = look;
  const [tasks, isAsked] = await Promise.all([listScheduledTasks(tx, run.id), isDriven(tx, run.id)]);
  look.tasks = tasks;
  const recorded = await recordedConclusion(look);
  if (recorded) {
    settleStatus(look, 'executing');
    return concluded(look, recorded);
  }
  const isUnchecked = !workflow.success_criteria && (tasks.length === 1 || workflow.team_id !== null);
  if (workflow.name === '' || isUnchecked || !(await plannerFor({ context, tx }, run, 'submit_synthesis'))) {
    settleStatus(look, 'executing');
    return concluded(look, await plainConclusion(look));
  }
  return ask(look, 'answer', isAsked);
}

/**
 * Has a model asked after this commit, under a lease on the run. If that never happens, the run is found like any lost
 * one.
 */
async function ask(look: WorkflowLook, need: Need, isAsked?: boolean): Promise<AppendedChange | null> {
  const { events } = look;
  if (need === 'answer') settleStatus(look, 'executing');
  // A model is being asked already.
  if (isAsked ?? (await isDriven(look.tx, look.run.id))) return events.length > 0 ? { events } : null;
  look.need = need;
  // An outbox, even an empty one, marks the run as not dormant.
  return { events, outbox: [] };
}

/**
 * Whether a failed or cancelled task fails its workflow: nobody is to be asked, or nobody wants it tried again. A
 * failed task of an unfinished plan does not: the whole plan may do without it.
 */
function isLost(look: WorkflowLook, task: ScheduledTask): boolean {
  const { status, approval_status, is_early } = task;
  if (status === 'cancelled') return true;
  if (status !== 'failed' || is_early) return false;
  return !isAskedAbout(look, task) || approval_status === 'denied' || approval_status === 'expired';
}

/** Whether a person is asked about the task if it fails: if the workflow says so, and always about effects. */
function isAskedAbout({ workflow }: WorkflowLook, { description, error }: ScheduledTask): boolean {
  // Nobody could have it tried again.
  if (description === '' || error?.code === INPUT_ERASED) return false;
  return workflow.settings.on_subtask_failure === 'ask' || error?.code === HAD_EFFECTS;
}

/** Asks a person about each task that has failed for good; its siblings go on meanwhile. */
async function askAboutFailed(look: WorkflowLook): Promise<void> {
  const unasked = look.tasks.filter(
    (task) => task.status === 'failed' && !task.is_early && task.approval_status === null && isAskedAbout(look, task),
  );
  if (unasked.length === 0) return;
  const { agent_id: agentId, agent_version: version } = look.run;
  const agent = await findAgentVersion(look.tx, agentId, version);
  const seconds = agent ? approvalSeconds(agent.definition) : LIMITS.approvalSeconds;
  for (const task of unasked) {
    const error = task.error ?? { code: 'failed', message: 'It has failed.' };
    const approvalId = newId();
    const args = { task_id: task.id, subtask: task.name, error };
    const message = `The subtask ${task.name} has failed: ${error.message} Approve to have it tried again.`;
    const about = {
      approval_id: approvalId,
      kind: 'approval' as const,
      tool: SUBTASK,
      arguments: args,
      digest: digestOf(args),
      expires_in_seconds: seconds,
      message,
    };
    await changeTask(look.tx, task.id, { to: 'failed', error, tokens: null, approval_id: approvalId });
    become(look, task.id, { approval_status: 'pending' });
    look.events.push(askApproval(look.run.open_turn_id ?? undefined, { about }));
  }
}

/** Waits: `awaiting_human` while people are asked, else `executing`. Sends a job only if an agent has to become free. */
function wait(look: WorkflowLook, delay: Delay | undefined): AppendedChange | null {
  const isAsked = look.tasks.some(({ approval_status }) => approval_status === 'pending');
  settleStatus(look, isAsked ? 'awaiting_human' : 'executing');
  return pause(look, delay);
}

function settleStatus({ run, events }: WorkflowLook, to: 'awaiting_human' | 'executing'): void {
  const from = statusAfter(run.status, events);
  if (from === to) return;
  const changed = statusChanged({ from, to, turnId: run.open_turn_id ?? undefined, actor: 'system' });
  const waiting_for = to === 'awaiting_human' && { waiting_for: { type: 'approval' as const } };
  events.push({ ...changed, payload: { ...changed.payload, ...waiting_for } });
}

function pause({ run, events }: WorkflowLook, delay: Delay | undefined): AppendedChange | null {
  if (events.length === 0 && run.dormant && !delay) return null;
  return { events, ...(delay ? { outbox: [laterLook(run, delay)] } : { dormant: true }) };
}

/** Stays not dormant, so that lifting the suspension finds the run; any outbox, even an empty one, clears the mark. */
function stand({ run, events }: WorkflowLook): AppendedChange | null {
  return events.length === 0 && !run.dormant ? null : { events, outbox: [] };
}

/** Fails the workflow with an error that names the subtask; a lone task gives its own error. */
async function fail(look: WorkflowLook, task: ScheduledTask): Promise<AppendedChange> {
  const reason = task.error ?? { code: task.status, message: 'It was cancelled.' };
  const isAlone = !look.workflow.name && (await countTasks(look.tx, look.run.id)) === 1;
  const error = isAlone
    ? reason
    : { code: 'SubtaskFailed', message: `The subtask ${task.name} has failed (${reason.code}): ${reason.message}` };
  const run = { ...look.run, status: statusAfter(look.run.status, look.events) };
  const { change, cancelled } = await failure(look.tx, run, error);
  look.cancelled.push(...cancelled);
  return { ...change, events: [...look.events, ...change.events] };
}
