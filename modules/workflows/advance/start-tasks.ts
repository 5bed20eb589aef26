/** Starts the subtasks whose inputs are there: each is a child of the workflow's run, created with the event that says so. */
import { textOf } from '../../../core/content.ts';
import { DroverError } from '../../../core/errors.ts';
import { canonicalJson } from '../../../core/ids.ts';
import { LIMITS } from '../../../core/limits.ts';
import { inTurn, levelsOf, nextSubtasks, type SubtaskState } from '../../../core/workflow.ts';
import { listReadyTasks, type ScheduledTask } from '../../../db/scheduled-tasks.ts';
import { isAnyUntrusted, recountInputs } from '../../../db/task-inputs.ts';
import { changeTask, readTaskNames, readTaskResults, type TaskStatus } from '../../../db/tasks.ts';
import { noteAssigned } from '../../../db/agent-lifecycle.ts';
import { writeRun } from '../../runs/create-run.ts';
import { leadOf } from '../delegation/supervisor.ts';
import { chooseWorker, countStart, type Worker } from './choose-worker.ts';
import { fail } from './settle-tasks.ts';
import { acceptHandoff, handedOver, isHandedByStrangers, noteReturn, refuseHandoff, targetOf } from './take-over.ts';
import { become, tell, type WorkflowStep } from './workflow-step.ts';

const STATES: Record<TaskStatus, SubtaskState['state']> = {
  pending: 'waiting',
  assigned: 'running',
  in_progress: 'running',
  awaiting_handoff: 'waiting',
  completed: 'done',
  failed: 'failed',
  cancelled: 'failed',
};

/** How a task stands for the scheduler. */
export function stateOf({ status }: Pick<ScheduledTask, 'status'>): SubtaskState['state'] {
  return STATES[status];
}

/** Starts as many as there is room for; answers whether one has to wait for an agent that is busy, or is tried again at once. */
export async function startTasks(step: WorkflowStep): Promise<{ isBusy: boolean }> {
  const next = await nextTasks(step);
  let isBusy = false;
  for (const task of next) {
    const isHanded = task.status === 'awaiting_handoff';
    const worker = isHanded ? await targetOf(step, task) : await chooseWorker(step, task);
    if (worker === 'busy') isBusy = true;
    else if (worker === 'none' && isHanded) await refuseHandoff(step, task, NOT_TAKEN);
    else if (worker === 'none') await fail(step, task, { error: NOBODY, tokens: null, isFinal: true });
    else await start(step, task, worker);
    isBusy ||= step.tasks.find(({ id }) => id === task.id)?.status === 'pending';
  }
  return { isBusy };
}

async function nextTasks(step: WorkflowStep): Promise<ScheduledTask[]> {
  const states = step.tasks.map((task) => ({ ...task, state: stateOf(task) }));
  const running = states.filter(({ state }) => state === 'running').length;
  const slots = LIMITS.subtasksAtOnce - running;
  if (step.workflow.settings.execution === 'levels') {
    const next = nextSubtasks(states, { slots, execution: 'levels' });
    tellLevel(step, next);
    return next;
  }
  if (slots <= 0) return [];
  const ready = await readyTasks(step, { slots, isIdle: running === 0 });
  const ids = new Set(ready.map(({ id }) => id));
  step.tasks = [...step.tasks.filter(({ id }) => !ids.has(id)), ...ready];
  return inTurn(ready, ({ path }) => path);
}

/** Where nothing runs and nothing can start, what the rows say of open inputs is looked at once more: a join trusts the tasks themselves. */
async function readyTasks(
  { tx, run }: WorkflowStep,
  { slots, isIdle }: { slots: number; isIdle: boolean },
): Promise<ScheduledTask[]> {
  const ready = await listReadyTasks(tx, run.id, slots);
  if (ready.length > 0 || !isIdle || !(await recountInputs(tx, run.id))) return ready;
  return listReadyTasks(tx, run.id, slots);
}

const NOT_TAKEN = { code: 'unavailable', message: 'The agent takes no tasks now.' };
const NOBODY = { code: 'InsufficientAgents', message: 'No active agent has what the task requires.' };

/** A level begins with the first of its subtasks. */
function tellLevel(step: WorkflowStep, next: readonly ScheduledTask[]): void {
  const levels = levelsOf(step.tasks);
  const [first] = next;
  if (!first) return;
  const level = levels.get(first.id) ?? 0;
  const ofLevel = step.tasks.filter(({ id }) => levels.get(id) === level);
  const isFresh = ofLevel.every(({ status, retry_count }) => status === 'pending' && retry_count === 0);
  if (isFresh)
    tell(step, { type: 'workflow.level_started', payload: { level, task_ids: ofLevel.map(({ id }) => id) } });
}

/** An agent that takes no run after all, such as one with a tool that is gone, has failed at the task. */
async function start(step: WorkflowStep, task: ScheduledTask, worker: Worker): Promise<void> {
  try {
    await create(step, task, worker);
  } catch (error) {
    if (!(error instanceof DroverError)) throw error;
    if (task.status === 'awaiting_handoff')
      return refuseHandoff(step, task, { code: error.code, message: error.message });
    const isFinal = task.retry_count >= LIMITS.taskRetries;
    const failed = { ...task, assigned_agent_id: worker.agentId };
    await fail(step, failed, { error: { code: error.code, message: error.message }, tokens: null, isFinal });
  }
}

async function create(step: WorkflowStep, task: ScheduledTask, worker: Worker): Promise<void> {
  const { tx, run, context } = step;
  const { max_cost_tokens } = task.requirements;
  const lead = await leadOf(step, worker.agentId);
  const message = await messageFor(step, task);
  const untrusted = await isFromStrangers(step, task);
  const attempt = task.retry_count + task.handoff_count;
  const { body, written } = await writeRun(context, tx, {
    tenantId: run.tenant_id,
    workspaceId: run.workspace_id,
    agentId: worker.agentId,
    ...(lead && { moreTools: lead.tools }),
    input: {
      message: lead ? `${message}\n\n${lead.members}` : message,
      ...(untrusted && { untrusted: true as const }),
    },
    config: max_cost_tokens === undefined ? {} : { budget: { max_tokens: max_cost_tokens } },
    mayRaiseAutonomy: false,
    child: { parent: run, taskId: task.id, attempt },
    traceparent: run.traceparent ?? undefined,
  });
  step.created.push(written);
  countStart(step, worker.agentId);
  const reason = worker.score === undefined ? worker.reason : `${worker.reason}, score ${worker.score}`;
  const { agentId: agent_id } = worker;
  await noteAssigned(tx, agent_id);
  await changeTask(tx, task.id, { to: 'in_progress', run_id: body.run_id, agent_id, reason });
  become(step, task.id, { status: 'in_progress', run_id: body.run_id, assigned_agent_id: agent_id, run: null });
  const payload = { task_id: task.id, run_id: body.run_id, agent_id, attempt: attempt + 1 };
  const why = { reason: worker.reason, ...(worker.score !== undefined && { score: worker.score }) };
  tell(step, { type: 'task.assigned', payload: { ...payload, ...why } });
  if (task.status === 'awaiting_handoff') await acceptHandoff(step, task, body.run_id);
  else await noteReturn(step, task, body.run_id);
}

/** What a worker reads: its own description, what was given with it, and the results of what it depends on. Nothing else. */
async function messageFor(step: WorkflowStep, task: ScheduledTask): Promise<string> {
  const { tx } = step;
  const results = await readTaskResults(tx, task.dependencies);
  const names = await readTaskNames(tx, task.dependencies);
  const given = Object.entries(task.input ?? {}).flatMap(([name, value]) =>
    value === undefined || value === null
      ? []
      : [`${name}:\n${typeof value === 'string' ? value : canonicalJson(value)}`],
  );
  const inherited = task.dependencies.map((id) => {
    return `Result of ${names.get(id) ?? id}:\n${shortened(textOf(results.get(id) ?? []), id)}`;
  });
  return [task.description, ...given, ...inherited, ...(await handedOver(step, task))].join('\n\n');
}

/** Whether what a worker reads holds anything for which nobody vouches: an input, what was handed over, or the words of a planner that had read the results of an earlier plan. */
async function isFromStrangers(step: WorkflowStep, task: ScheduledTask): Promise<boolean> {
  const { tx, workflow } = step;
  const isReplanned = workflow.plans > 1 || task.is_early;
  const read = { ids: task.dependencies, ...(isReplanned && { workflowId: workflow.id }) };
  return (await isAnyUntrusted(tx, read)) || isHandedByStrangers(step, task);
}

function shortened(text: string, taskId: string): string {
  const most = LIMITS.dependencyResultChars;
  return text.length <= most ? text : `${text.slice(0, most)}\n[cut; the whole is the output of task ${taskId}]`;
}
