/**
 * Repeats a workflow as a new one: a retry goes on from its finished subtasks, a replay answers from their record.
 * Neither repeats them; a subtask that is taken over keeps the original's child as its run.
 */
import { BUILTIN_PLANNER } from '../../core/builtin-planner.ts';
import { badRequest, conflict, erased, notFound } from '../../core/errors.ts';
import { isTerminal, type NewEvent } from '../../core/events.ts';
import type { RequestedConfig } from '../../core/run-config.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { isAnyBeingErased } from '../../db/erasures.ts';
import { rehearse } from '../../db/rehearse.ts';
import { findAgentIds, findAgentNames } from '../../db/agents.ts';
import { listScheduledTasks, type ScheduledTask } from '../../db/scheduled-tasks.ts';
import { listEffectsOfTasks } from '../../db/task-effects.ts';
import {
  copyTasks,
  listTasksOf,
  listTasksOfOpenPlan,
  readTaskResults,
  type Problem,
  type TakenTask,
  type TaskRow,
} from '../../db/tasks.ts';
import { copyWorkflow, findWorkflow } from '../../db/workflows.ts';
import { effectsNote, HAD_EFFECTS } from './advance/settle-tasks.ts';
import { renewPaths } from './workflow-plan.ts';
import { newId } from '../../lib/new-id.ts';
import { recordAudit, type AuditedBy } from '../audit/record-audit.ts';
import type { Context } from '../governance/context.ts';
import { announceAppended, appendIn, type Announcement } from '../run-log/append-to-run.ts';
import { conversationBefore } from '../runs/conversation-before.ts';
import { writeRun } from '../runs/create-run.ts';
import { lockOriginal } from '../runs/lock-original.ts';
import { effectsOfRun, type ReplayedRun, type ReplayRun } from '../runs/replay-run.ts';
import { requireRetryable, type RehearsedRetry, type RetriedRun, type RetryRun } from '../runs/retry-run.ts';
import { idempotently, type IdempotentAnswer } from '../tenants/idempotency.ts';

/** Levels of autonomy do not matter: all that is run again is run by the current versions of the agents, as in a new workflow. */
type Again<R> = Omit<R, 'mayRaiseAutonomy'>;

/**
 * Retries a failed workflow. Throws 409 if it has not failed, if its thread has gone on, or if an unfinished part of it
 * is erased.
 */
export async function retryWorkflow(context: Context, request: Again<RetryRun>): Promise<IdempotentAnswer<RetriedRun>> {
  return announced(context, request, (tx) => retryIn(context, tx, request));
}

/** Throws what `retryWorkflow` would; nothing is left of it. */
export function rehearseWorkflowRetry(context: Context, request: Again<RehearsedRetry>): Promise<void> {
  return rehearse(context.db, request.tenantId, (tx) => retryIn(context, tx, request));
}

async function retryIn(context: Context, tx: Tx, request: Again<RehearsedRetry>) {
  const { original } = await requireRetryable(tx, request.runId);
  const again = { original, isRetry: true, keeps: true, recorded: false, config: {} };
  const made = await restart(context, tx, { ...request, ...again });
  return { body: { ...made.ids, retried_from: original.id }, written: made.written };
}

/**
 * Replays a workflow. `live` asks the planner's model again to sum up the results; `recorded` gives the original's
 * answer if it completed. Only `rerunEffects` repeats subtasks. Throws 400 for a state or a checkpoint, since a
 * workflow's tasks alone say what is done; 409 if it has not ended.
 */
export async function replayWorkflow(
  context: Context,
  request: Again<ReplayRun>,
): Promise<IdempotentAnswer<ReplayedRun>> {
  checkReplay(request);
  const { mode, rerunEffects, by } = request;
  return announced(context, request, async (tx) => {
    const { run: original } = await lockOriginal(tx, request.runId);
    if (!isTerminal(original.status)) throw conflict(`The workflow is ${original.status}; wait for its end.`);
    const tasks = await listTasksOf(tx, original.id);
    const effects = await effectsBelow(tx, tasks);
    const recorded = mode === 'recorded' && !rerunEffects && original.status === 'completed';
    const made = await restart(context, tx, {
      ...request,
      original,
      isRetry: false,
      keeps: !rerunEffects,
      recorded,
      requestedBy: by?.keyId,
    });
    if (rerunEffects) await auditRerun(tx, request, { newRunId: made.ids.run_id, effects: effects.length });
    return { body: { ...made.ids, forked_from_run_id: original.id, effects }, written: made.written };
  });
}

function checkReplay({ checkpointId, modified, config }: Again<ReplayRun>): void {
  const fault = (path: string, message: string) => badRequest(`${path} ${message}`, [{ path, message }]);
  if (checkpointId !== 'start')
    throw fault('body.checkpoint_id', 'must be "start": a workflow is replayed from its beginning');
  const state = Object.entries(modified).find(([, value]) => value !== undefined);
  if (state) throw fault('body.modified_state', 'is not for workflows');
  const setting = Object.entries(config).find(([name, value]) => name !== 'budget' && value !== undefined);
  if (setting) throw fault(`body.config.${setting[0]}`, 'is not for workflows: they take a budget alone');
}

/** Effects that the original's children had outside. */
async function effectsBelow(tx: Tx, tasks: readonly TaskRow[]): Promise<ReplayedRun['effects']> {
  const effects: ReplayedRun['effects'] = [];
  for (const { run_id } of tasks) if (run_id) effects.push(...(await effectsOfRun(tx, run_id)));
  return effects;
}

async function auditRerun(
  tx: Tx,
  { tenantId, runId, by }: { tenantId: string; runId: string; by?: AuditedBy },
  { newRunId, effects }: { newRunId: string; effects: number },
): Promise<void> {
  const details = { new_run_id: newRunId, checkpoint_id: 'start', effects };
  await recordAudit(tx, by ?? { tenantId }, { action: 'run.effects_rerun', target: ['run', runId], details });
}

interface Restart {
  original: RunRow;
  isRetry: boolean;
  /** Takes over finished subtasks. */
  keeps: boolean;
  /** Takes over the answer, too. */
  recorded: boolean;
  config: RequestedConfig;
  requestedBy?: string | undefined;
  traceparent: string | undefined;
}

async function restart(
  context: Context,
  tx: Tx,
  { original, isRetry, keeps, recorded, config, requestedBy, traceparent }: Restart,
): Promise<{ ids: Omit<RetriedRun, 'retried_from'>; written: Announcement }> {
  const { tenant_id: tenantId, workspace_id: workspaceId } = original;
  const workflow = await findWorkflow(tx, original.id);
  if (!workflow) throw notFound('The workflow');
  const budget = config.budget ?? original.config.budget;
  const created = await writeRun(context, tx, {
    tenantId,
    workspaceId,
    kind: 'workflow',
    agentId: original.agent_id,
    ...(original.agent_id === BUILTIN_PLANNER.id && { start: { ...BUILTIN_PLANNER, tools: [] } }),
    ...(isRetry ? { threadId: original.thread_id } : { after: await conversationBefore(tx, original) }),
    input: { message: workflow.input.user_query ?? workflow.name },
    config: budget ? { budget } : {},
    mayRaiseAutonomy: false,
    // The original's budget is that of its root; another one is the new run's own.
    again: { of: original, isRetry, bringsBudget: config.budget !== undefined },
    requestedBy,
    traceparent,
  });
  const { run_id: id, thread_id, turn_id } = created.body;
  await copyWorkflow(tx, { from: original.id, id, recordedFrom: recorded ? original.id : null });
  const written = await takeOver(tx, { tenantId, workspaceId, from: original.id, id, keeps });
  const ids = { id, run_id: id, new_run_id: id, thread_id, ...(turn_id && { turn_id }), status: 'running' as const };
  return { ids, written: written ? { ...created.written, seq: written.seq } : created.written };
}

interface TakeOver {
  tenantId: string;
  workspaceId: string;
  from: string;
  id: string;
  keeps: boolean;
}

/** Copies the tasks, with the results of finished ones; an unfinished plan is left to be made anew. */
async function takeOver(tx: Tx, { tenantId, workspaceId, from, id, keeps }: TakeOver): Promise<{ seq: number } | null> {
  const tasks = (await listScheduledTasks(tx, from)).filter(({ is_early }) => !is_early);
  if (keeps) await refuseEarlyEffects(tx, from);
  if (tasks.length === 0) return null;
  const kept = keeps ? await finished(tx, tasks) : new Set<string>();
  const sharedRuns = tasks.flatMap(({ id: task, run_id }) => (run_id !== null && kept.has(task) ? [run_id] : []));
  if (await isAnyBeingErased(tx, sharedRuns)) throw erased('A subtask of the workflow');
  // Tasks to repeat must not be erased.
  if (tasks.some((task) => task.description === '' && !kept.has(task.id))) throw erased('A subtask of the workflow');
  await agentsMustBeThere(
    tx,
    workspaceId,
    tasks.filter(({ id: task }) => !kept.has(task)),
  );
  const open = keeps ? tasks.filter((task) => !kept.has(task.id)) : [];
  const errors = await errorsOfTaken(tx, from, open);
  const taken = tasks.map((task): TakenTask => {
    return { from: task.id, id: newId(), isDone: kept.has(task.id), error: errors.get(task.id) };
  });
  await copyTasks(tx, id, taken);
  await renewPaths(tx, id);
  const copies = await listTasksOf(tx, id);
  return appendIn(tx, { tenantId, runId: id }, (run) => {
    const by = { actor: 'user' as const, turn_id: run.open_turn_id ?? undefined };
    const planned = copies.map(({ id: task_id, dependencies }) => ({ task_id, dependencies }));
    const ends = copies
      .filter(({ status }) => status === 'completed')
      .map((task): NewEvent => {
        const { id: task_id, run_id, tokens_used, latency_ms } = task;
        const payload = {
          task_id,
          run_id: run_id ?? '',
          tokens: Number(tokens_used ?? 0),
          latency_ms: latency_ms ?? 0,
        };
        return { ...by, type: 'task.completed', payload };
      });
    const failed = taken.flatMap(({ id: task_id, error }): NewEvent[] =>
      error ? [{ ...by, type: 'task.failed', payload: { task_id, error, final: true } }] : [],
    );
    const plan: NewEvent = { ...by, type: 'workflow.planned', payload: { replan: 0, tasks: planned } };
    return { events: [plan, ...ends, ...failed] };
  });
}

/**
 * Throws 409 if subtasks of an unfinished plan had effects: it is planned anew, and nobody could tell which new subtask
 * would repeat them.
 */
async function refuseEarlyEffects(tx: Tx, workflowId: string): Promise<void> {
  const early = await listTasksOfOpenPlan(tx, workflowId);
  if (early.length === 0) return;
  const had = await listEffectsOfTasks(tx, { workflowId, taskIds: early.map(({ id }) => id) });
  for (const { id, name } of early) {
    const effects = had.get(id) ?? [];
    if (effects.length === 0) continue;
    const what = `The subtask ${name} was begun before its plan was whole, and ${effects.join(', ')} has had an effect.`;
    throw conflict(`${what} A replay with rerun_effects: true does all of it again.`, { effects });
  }
}

/** Errors for open subtasks whose attempts had effects: they start again only if a person agrees. The others may start. */
async function errorsOfTaken(
  tx: Tx,
  workflowId: string,
  tasks: readonly ScheduledTask[],
): Promise<ReadonlyMap<string, Problem>> {
  const errors = new Map<string, Problem>();
  if (tasks.length === 0) return errors;
  const had = await listEffectsOfTasks(tx, { workflowId, taskIds: tasks.map(({ id }) => id) });
  for (const { id, error } of tasks) {
    const effects = had.get(id) ?? [];
    const [why, note] = [error?.message ?? 'It was cancelled.', effectsNote(effects)];
    // What the original asked a person has not been answered yet.
    if (error?.code === HAD_EFFECTS) errors.set(id, error);
    else if (effects.length > 0)
      errors.set(id, { code: HAD_EFFECTS, message: why.includes(note) ? why : `${why} ${note}` });
  }
  return errors;
}

/** Throws 409 if a subtask names an agent that is deprecated since: as in a new workflow, no other agent takes its place. */
async function agentsMustBeThere(tx: Tx, workspaceId: string, tasks: readonly ScheduledTask[]): Promise<void> {
  const named = tasks.flatMap(({ agent_id }) => agent_id ?? []);
  if (named.length === 0) return;
  const there = await findAgentIds(tx, workspaceId, named);
  const gone = tasks.find(({ agent_id }) => agent_id !== null && !there.has(agent_id));
  if (!gone?.agent_id) return;
  const name = (await findAgentNames(tx, [gone.agent_id])).get(gone.agent_id) ?? gone.agent_id;
  throw conflict(`The subtask ${gone.name} is for the agent ${name}, which is deprecated; it takes no new runs.`, {
    agent_id: gone.agent_id,
  });
}

/** Ids of completed tasks whose results still exist. */
async function finished(tx: Tx, tasks: readonly { id: string; status: string }[]): Promise<Set<string>> {
  const done = tasks.filter(({ status }) => status === 'completed').map(({ id }) => id);
  return new Set((await readTaskResults(tx, done)).keys());
}

async function announced<T>(
  context: Context,
  { idempotency }: Pick<RetryRun, 'idempotency'>,
  work: (tx: Tx) => Promise<{ body: T; written: Announcement }>,
): Promise<IdempotentAnswer<T>> {
  let written: Announcement | undefined;
  const answer = await idempotently<T>(context, idempotency, async (tx) => {
    const made = await work(tx);
    ({ written } = made);
    return { status: 202, body: made.body };
  });
  if (written) announceAppended(context, written);
  return answer;
}
