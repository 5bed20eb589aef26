/**
 * A plan that is still being written: each of its subtasks that is whole, and needs nothing but what is known, is written down
 * and begins. When the plan is whole, what it has in common with these goes on as part of it; what it has not is cancelled.
 * Where the stream breaks, the plan turns out to be none, or its planner dies, whoever asks for the next plan finds what was
 * begun; that one is waited for, as only a whole plan shows what it does without. So nothing is done twice.
 */
import { sameWork, wholeElements, type PlannedWork } from '../../../core/plan-stream.ts';
import { statusChanged } from '../../../core/decision-events/turns.ts';
import type { NewEvent } from '../../../core/events.ts';
import { LIMITS } from '../../../core/limits.ts';
import { withFreeIds } from '../../../core/workflow.ts';
import { findAgentIds } from '../../../db/agents.ts';
import type { RunRow } from '../../../db/claim-run.ts';
import type { Tx } from '../../../db/database.ts';
import type { ScheduledTask } from '../../../db/scheduled-tasks.ts';
import { listEffectsOfTasks } from '../../../db/task-effects.ts';
import { dropEarlyTasks, keepEarlyTasks } from '../../../db/tasks.ts';
import { rememberPlanning } from '../../../db/workflows.ts';
import { lookAtChildren } from '../../run-log/join-parent.ts';
import { cancelChild } from '../../runs/cancel-children.ts';
import type { WorkflowLook } from '../advance/workflow-look.ts';
import { tasksOf, writeTasks, type PlannedSubtask } from '../workflow-plan.ts';
import { append } from './append.ts';
import { roomFor, subtask, type Planning } from './ask-planner.ts';

interface EarlyPlan {
  /** Takes the arguments of the planner's answer as far as they are there. */
  hear: (json: string) => void;
  /** Resolves when all that was heard is written. */
  written: () => Promise<void>;
}

/** What a plan is for: the subtasks that it may depend on, and the gaps that it is to fill. */
interface PlanFor {
  known: readonly string[];
  gaps: readonly string[];
  /** Nothing was begun of a plan before it: else it is waited for. */
  isFirst: boolean;
}

/** Listens to a plan. */
export function listenToPlan(planning: Planning, { known, gaps, ...of }: PlanFor): EarlyPlan {
  let { isFirst } = of;
  let seen = '';
  let writing: Promise<void> = Promise.resolve();
  // What depends on what was there before waits for the whole plan, which may have an id for itself.
  const names = new Set<string>();
  const heard = new Set<string>();
  const waiting: PlannedSubtask[] = [];
  const hear = (json: string) => {
    if (!json.startsWith(seen)) {
      if (names.size > 0) isFirst = false;
      heard.clear();
      waiting.length = 0;
    }
    if (!isFirst) return;
    const isNews = json.slice(seen.length).includes('}') || !json.startsWith(seen);
    seen = json;
    if (!isNews) return;
    const elements = wholeElements(json, 'subtasks').slice(0, LIMITS.subtasksPerPlan);
    const written = elements.flatMap((element) => subtask.safeParse(element).data ?? []);
    for (const planned of withFreeIds(written, known)) {
      if (heard.has(planned.id)) continue;
      heard.add(planned.id);
      if (!names.has(planned.id)) waiting.push(planned);
    }
    const ready = takeReady(waiting, names);
    if (ready.length === 0) return;
    writing = writing
      .then(() => writeEarly(planning, ready, gaps))
      // They begin with the whole plan then.
      .catch((error: unknown) =>
        planning.context.log.warn({ run: planning.run.id, err: error }, 'subtasks not begun early'),
      );
  };
  return { hear, written: () => writing };
}

/** Those whose inputs are known; each makes itself known to those after it. */
function takeReady(waiting: PlannedSubtask[], names: Set<string>): PlannedSubtask[] {
  const ready: PlannedSubtask[] = [];
  for (let at = 0; at < waiting.length;) {
    const next = waiting[at];
    if (!next?.dependencies.every((dependency) => names.has(dependency))) {
      at += 1;
      continue;
    }
    names.add(next.id);
    ready.push(next);
    waiting.splice(at, 1);
    at = 0;
  }
  return ready;
}

function writeEarly(planning: Planning, subtasks: readonly PlannedSubtask[], gaps: readonly string[]): Promise<void> {
  return append(planning, async ({ tx, run, workflow, tasks }) => {
    const owner = { tenantId: run.tenant_id, workspaceId: run.workspace_id, workflowId: run.id };
    const fresh = subtasks.slice(0, roomFor(tasks));
    if (fresh.length === 0) return null;
    const known = tasks.map(({ id, name }) => ({ id, name }));
    const rows = (await tasksOf(tx, owner, { subtasks: fresh, known })).map((row) => ({ ...row, isEarly: true }));
    const planned = await writeTasks(tx, rows, workflow.plans);
    await rememberPlanning(tx, run.id, gaps);
    const turnId = run.open_turn_id ?? undefined;
    const events: NewEvent[] = [...backToPlanning(run), { ...planned, actor: 'system', turn_id: turnId }];
    return { events, outbox: lookAtChildren(run) };
  });
}

/** What is planned anew was reflected on before. */
export function backToPlanning({ status, open_turn_id }: WorkflowLook['run']): NewEvent[] {
  if (status !== 'executing') return [];
  const way = ['reflecting', 'planning'] as const;
  const turnId = open_turn_id ?? undefined;
  return way.map((to, index) => statusChanged({ from: way[index - 1] ?? status, to, turnId, actor: 'system' }));
}

/** The subtasks of a plan with the ids of the agents that it names. */
async function byAgents(
  tx: Tx,
  { workspace_id: workspaceId }: Pick<RunRow, 'workspace_id'>,
  subtasks: readonly PlannedSubtask[],
): Promise<PlannedWork[]> {
  const names = subtasks.flatMap(({ agent }) => agent ?? []);
  if (names.length === 0) return [...subtasks];
  const ids = await findAgentIds(tx, workspaceId, names);
  return subtasks.map((each) => ({ ...each, agent: ids.get(each.agent ?? '') }));
}

/** The subtasks that were begun early, in the words of a plan, and who does them. */
export function worksOf(tasks: readonly ScheduledTask[]): PlannedWork[] {
  const names = new Map(tasks.map(({ id, name }) => [id, name]));
  return tasks
    .filter(({ is_early }) => is_early)
    .map(({ name, description, dependencies, requirements, agent_id, assigned_agent_id }) => ({
      id: name,
      description,
      dependencies: dependencies.map((id) => names.get(id) ?? id),
      required_capabilities: requirements.required_capabilities,
      agent: agent_id ?? assigned_agent_id ?? undefined,
    }));
}

/** Names of the subtasks of whole plans. */
function doneNames(tasks: readonly ScheduledTask[]): string[] {
  return tasks.filter(({ is_early }) => !is_early).map(({ name }) => name);
}

/** What a whole plan has of what was begun early, under its own names, and what it has not. */
interface EarlyMatch {
  kept: { id: string; name: string }[];
  dropped: ScheduledTask[];
  /** Subtasks of the plan that are still to be written. */
  fresh: PlannedSubtask[];
}

export async function matchEarly(
  { tx, run, tasks }: Pick<WorkflowLook, 'tx' | 'run' | 'tasks'>,
  plan: readonly PlannedSubtask[],
): Promise<EarlyMatch> {
  const early = tasks.filter(({ is_early }) => is_early);
  const same = sameWork(await byAgents(tx, run, plan), worksOf(tasks), doneNames(tasks));
  const kept = [...same].flatMap(([name, was]) => {
    const task = early.find((each) => each.name === was);
    return task ? [{ id: task.id, name }] : [];
  });
  const dropped = early.filter(({ id }) => kept.every((each) => each.id !== id));
  return { kept, dropped, fresh: plan.filter(({ id }) => !same.has(id)) };
}

/** Subtasks that a plan has not and that have had an effect outside, with the tools that had it: the plan may do it in other words. */
export async function spoiledBy(
  { tx, run }: Pick<WorkflowLook, 'tx' | 'run'>,
  { dropped }: EarlyMatch,
): Promise<{ name: string; tools: string[] }[]> {
  if (dropped.length === 0) return [];
  const had = await listEffectsOfTasks(tx, { workflowId: run.id, taskIds: dropped.map(({ id }) => id) });
  return dropped.flatMap(({ id, name }) => {
    const tools = had.get(id) ?? [];
    return tools.length > 0 ? [{ name, tools }] : [];
  });
}

/**
 * The plan is whole: keeps of what was begun early what it has, and cancels the rest with its children. Answers all that the
 * subtasks which are still to be written may depend on.
 */
export async function settleEarly(
  step: Pick<WorkflowLook, 'tx' | 'run' | 'tasks' | 'events' | 'cancelled'>,
  { kept, dropped }: EarlyMatch,
): Promise<{ id: string; name: string }[]> {
  const { tx, run, tasks } = step;
  await keepEarlyTasks(tx, kept);
  await dropEarlyTasks(
    tx,
    dropped.map(({ id }) => id),
  );
  for (const { id, run_id } of dropped) {
    if (run_id) {
      const ref = { tenantId: run.tenant_id, runId: run_id };
      step.cancelled.push(...(await cancelChild(tx, ref, 'not part of the plan')));
    }
    const payload = { task_id: id, ...(run_id && { run_id }) };
    step.events.push({ type: 'task.cancelled', actor: 'system', turn_id: run.open_turn_id ?? undefined, payload });
  }
  const done = tasks.filter(({ is_early }) => !is_early).map(({ id, name }) => ({ id, name }));
  return [...done, ...kept];
}
