/** Settles tasks whose children have ended: done, tried again, or failed for good. */
import { isTerminal, OUT_OF_BUDGET } from '../../../core/events.ts';
import { LIMITS } from '../../../core/limits.ts';
import type { ScheduledTask } from '../../../db/scheduled-tasks.ts';
import { listEffectsOfTasks } from '../../../db/task-effects.ts';
import { changeTask, type TaskStatus } from '../../../db/tasks.ts';
import { whoseBudget } from '../../budgets/whose-budget.ts';
import { cancelChild } from '../../runs/cancel-children.ts';
import { settleHandoff } from './take-over.ts';
import { become, tell, type WorkflowLook } from './workflow-look.ts';

interface Problem {
  code: string;
  message: string;
}

const DUE: readonly TaskStatus[] = ['pending', 'in_progress', 'awaiting_handoff'];

type Ended = NonNullable<ScheduledTask['run']>;

/**
 * Settles every open task whose child has ended or whose deadline has passed, and applies people's decisions about
 * failed ones. Completed ones come first: their statements are sent before this returns its promise. Resolves to
 * whether there was nothing else.
 */
export async function settleTasks(look: WorkflowLook): Promise<boolean> {
  const { tasks } = look;
  const done = tasks.filter((task) => task.is_done);
  // Sent together: in a wide workflow many end at the same time.
  await Promise.all(done.map((task) => complete(look, task)));
  for (const task of tasks.filter((each) => !done.includes(each))) {
    const { run } = task;
    if (run && isTerminal(run.status)) await settle(look, task, run);
    else if (task.is_due && DUE.includes(task.status)) await expire(look, task);
    else if (task.is_stranded) await reassign(look, task);
    else if (task.status === 'failed' && task.approval_status === 'approved') await tryAgain(look, task);
  }
  return look.tasks.every((task, index) => done.some(({ id }) => id === task.id) || task === tasks[index]);
}

async function settle(look: WorkflowLook, task: ScheduledTask, run: Ended): Promise<void> {
  const error = await errorOf(look, task, run);
  if (await settleHandoff(look, task, !error)) return;
  if (error) return attemptFailed(look, task, { error, tokens: run.tokens, isFinal: isForGood(task, run) });
  await complete(look, task);
}

async function complete(look: WorkflowLook, { id, run_id, run }: ScheduledTask): Promise<void> {
  const done = { tokens: run?.tokens ?? 0, latency_ms: Math.max(0, run?.latency_ms ?? 0) };
  become(look, id, { status: 'completed' });
  tell(look, { type: 'task.completed', payload: { task_id: id, run_id: run_id ?? '', ...done } });
  await changeTask(look.tx, id, { to: 'completed', ...done });
}

/** The error of a child. One that ran out of tokens has failed, whatever it said. */
async function errorOf(
  { tx, run }: WorkflowLook,
  { run_id: runId }: ScheduledTask,
  { status, stop_reason, error }: Ended,
): Promise<Problem | undefined> {
  if (stop_reason === OUT_OF_BUDGET) {
    const child = { runId: runId ?? '', parentId: run.id, parent: 'the workflow', error };
    return { code: OUT_OF_BUDGET, message: await whoseBudget(tx, child) };
  }
  if (status === 'completed') return undefined;
  if (status === 'cancelled') return { code: 'cancelled', message: 'Its run was cancelled.' };
  return error ?? { code: 'failed', message: 'Its run has failed.' };
}

/** Whether another attempt is pointless: a person ended it, it ran out of budget, or its retries are used up. */
function isForGood(task: ScheduledTask, { status, stop_reason }: Ended): boolean {
  return status === 'cancelled' || stop_reason === OUT_OF_BUDGET || task.retry_count >= LIMITS.taskRetries;
}

async function expire(look: WorkflowLook, task: ScheduledTask): Promise<void> {
  const tenantId = look.run.tenant_id;
  if (task.run_id && task.status === 'in_progress') {
    look.cancelled.push(...(await cancelChild(look.tx, { tenantId, runId: task.run_id }, 'deadline')));
  }
  const error = { code: 'deadline', message: 'The deadline of the task has passed.' };
  await attemptFailed(look, task, { error, tokens: task.run?.tokens ?? null, isFinal: true });
}

/** Moves a task away from an agent that has gone silent. */
async function reassign(look: WorkflowLook, task: ScheduledTask): Promise<void> {
  const tenantId = look.run.tenant_id;
  if (task.run_id)
    look.cancelled.push(...(await cancelChild(look.tx, { tenantId, runId: task.run_id }, 'agent offline')));
  const error = { code: 'agent_offline', message: 'The agent that worked on it has not been heard of.' };
  await attemptFailed(look, task, { error, tokens: task.run?.tokens ?? null, isFinal: false });
}

interface Failure {
  error: Problem;
  tokens: number | null;
  isFinal: boolean;
}

/**
 * Ends a failed attempt: the task is tried again, with another worker if possible, or fails. After an attempt with
 * outside effects, which another would repeat, only a person may have it tried again.
 */
export async function attemptFailed(look: WorkflowLook, task: ScheduledTask, failure: Failure): Promise<void> {
  const effects = failure.isFinal ? [] : await effectsSinceAsked(look, task.id);
  const isFinal = failure.isFinal || effects.length > 0;
  const error = effects.length > 0 ? withEffects(failure.error, effects) : failure.error;
  const { tokens } = failure;
  const payload = { task_id: task.id, ...(task.run_id && { run_id: task.run_id }), error, final: isFinal };
  tell(look, { type: 'task.failed', payload });
  if (isFinal) {
    await changeTask(look.tx, task.id, { to: 'failed', error, tokens, approval_id: null });
    become(look, task.id, { status: 'failed', error, approval_status: null });
    return;
  }
  await again(look, task, { error, failedAgent: task.assigned_agent_id, asked: false });
}

async function effectsSinceAsked(look: WorkflowLook, taskId: string): Promise<string[]> {
  const of = { workflowId: look.run.id, taskIds: [taskId], sinceAsked: true as const };
  return (await listEffectsOfTasks(look.tx, of)).get(taskId) ?? [];
}

function withEffects({ code, message }: Problem, tools: readonly string[]): Problem {
  return { code, message: `${message} ${effectsNote(tools)}` };
}

/** Code of a task taken over from another workflow whose attempts had effects: a person is asked about it. */
export const HAD_EFFECTS = 'had_effects';

/** Code of a task whose brief, or a result that it needs, is erased: it cannot be done any more. */
export const INPUT_ERASED = 'erased';

/** The note added to the error of a task whose attempts had effects. */
export function effectsNote(tools: readonly string[]): string {
  return `It is not tried again by itself: what ${tools.join(', ')} did would be done once more.`;
}

async function tryAgain(look: WorkflowLook, task: ScheduledTask): Promise<void> {
  const error = task.error ?? { code: 'failed', message: 'It has failed.' };
  await again(look, task, { error, failedAgent: null, asked: true });
}

async function again(
  look: WorkflowLook,
  task: ScheduledTask,
  { error, failedAgent, asked }: { error: Problem; failedAgent: string | null; asked: boolean },
): Promise<void> {
  await changeTask(look.tx, task.id, { to: 'pending', error, failed_agent: failedAgent, asked });
  const retry = task.retry_count + 1;
  const failed_agents = [...task.failed_agents, ...(failedAgent ? [failedAgent] : [])];
  become(look, task.id, {
    status: 'pending',
    retry_count: retry,
    failed_agents,
    approval_status: null,
    run: null,
    is_stranded: false,
    ...(asked && { is_due: false }),
  });
  tell(look, { type: 'task.retried', payload: { task_id: task.id, retry, asked } });
}
