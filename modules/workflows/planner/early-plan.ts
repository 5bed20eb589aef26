/**
 * Starts subtasks of a plan while it is still being written: each that is complete and needs only known ones. When the
 * plan is whole, those it contains become part of it; the others are cancelled. If the stream breaks, the plan proves
 * invalid, or the planner dies, the next planner finds what was begun. The next plan starts nothing early, since only a
 * whole plan shows what it leaves out. So nothing is done twice.
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
import { become, type WorkflowLook } from '../advance/workflow-look.ts';
import { tasksOf, writeTasks, type PlannedSubtask } from '../workflow-plan.ts';
import { append } from './append.ts';
import { roomFor, subtask, type Planning } from './ask-planner.ts';

interface EarlyPlan {
  /** Takes the planner's arguments as JSON, as far as received. */
  hear: (json: string) => void;
  /** Resolves once all that was heard is written. */
  written: () => Promise<void>;
}

/** What the plan may depend on, and the gaps it is to fill. */
interface PlanFor {
  known: readonly string[];
  gaps: readonly string[];
  /** No earlier plan has begun anything; else nothing starts early. */
  isFirst: boolean;
}

/** Starts subtasks while the plan is written. */
export function listenToPlan(planning: Planning, { known, gaps, ...of }: PlanFor): EarlyPlan {
  let { isFirst } = of;
  let seen = '';
  let writing: Promise<void> = Promise.resolve();
  // Subtasks that depend on earlier ones wait for the whole plan, which may use the same id for one of its own.
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
      // Then they begin with the whole plan.
      .catch((error: unknown) =>
        planning.context.log.warn({ run: planning.run.id, err: error }, 'subtasks not begun early'),
      );
  };
  return { hear, written: () => writing };
}

/** Takes out subtasks with known dependencies; each is known to the others. */
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
    // By a name that a submitted task has too, the plan means its own subtask.
    const known = tasks.toSorted((a, b) => Number(a.is_early) - Number(b.is_early));
    const rows = (await tasksOf(tx, owner, { subtasks: fresh, known })).map((row) => ({ ...row, isEarly: true }));
    const planned = await writeTasks(tx, rows, workflow.plans);
    await rememberPlanning(tx, run.id, gaps);
    const turnId = run.open_turn_id ?? undefined;
    const events: NewEvent[] = [...backToPlanning(run), { ...planned, actor: 'system', turn_id: turnId }];
    return { events, outbox: lookAtChildren(run) };
  });
}

/** A replan goes back to planning by way of reflecting. */
export function backToPlanning({ status, open_turn_id }: WorkflowLook['run']): NewEvent[] {
  if (status !== 'executing') return [];
  const way = ['reflecting', 'planning'] as const;
  const turnId = open_turn_id ?? undefined;
  return way.map((to, index) => statusChanged({ from: way[index - 1] ?? status, to, turnId, actor: 'system' }));
}

/** The way to the end from a replan that is given up. */
export function backFromPlanning({ status, open_turn_id }: WorkflowLook['run']): NewEvent[] {
  if (status !== 'planning') return [];
  return [statusChanged({ from: status, to: 'executing', turnId: open_turn_id ?? undefined, actor: 'system' })];
}

/** The plan's subtasks, with agents' names replaced by ids. */
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

/** Subtasks that were begun early, as a plan would put them, with their agents. */
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

/** Names of the subtasks from whole plans. */
function doneNames(tasks: readonly ScheduledTask[]): string[] {
  return tasks.filter(({ is_early }) => !is_early).map(({ name }) => name);
}

/** Begun subtasks that the whole plan contains, with its names for them, and those it does not. */
interface EarlyMatch {
  kept: { id: string; name: string }[];
  dropped: ScheduledTask[];
  /** Subtasks of the plan that are not written yet. */
  fresh: PlannedSubtask[];
}

/** A subtask whose name was given to a submitted task meanwhile gets another one. */
export async function matchEarly(
  { tx, run, tasks }: Pick<WorkflowLook, 'tx' | 'run' | 'tasks'>,
  made: readonly PlannedSubtask[],
): Promise<EarlyMatch> {
  const plan = withFreeIds(made, doneNames(tasks));
  const early = tasks.filter(({ is_early }) => is_early);
  const same = sameWork(await byAgents(tx, run, plan), worksOf(tasks), doneNames(tasks));
  const kept = [...same].flatMap(([name, was]) => {
    const task = early.find((each) => each.name === was);
    return task ? [{ id: task.id, name }] : [];
  });
  const dropped = early.filter(({ id }) => kept.every((each) => each.id !== id));
  return { kept, dropped, fresh: plan.filter(({ id }) => !same.has(id)) };
}

/** Dropped subtasks that had outside effects, with the tools that had them: the plan may repeat them in other words. */
export async function spoiledBy(
  { tx, run }: Pick<WorkflowLook, 'tx' | 'run'>,
  { dropped }: Pick<EarlyMatch, 'dropped'>,
): Promise<{ name: string; tools: string[] }[]> {
  if (dropped.length === 0) return [];
  const had = await listEffectsOfTasks(tx, { workflowId: run.id, taskIds: dropped.map(({ id }) => id) });
  return dropped.flatMap(({ id, name }) => {
    const tools = had.get(id) ?? [];
    return tools.length > 0 ? [{ name, tools }] : [];
  });
}

/** Keeps the begun subtasks that the whole plan contains; returns all tasks that the remaining ones may depend on. */
export async function keepEarly(
  { tx, tasks }: Pick<WorkflowLook, 'tx' | 'tasks'>,
  kept: EarlyMatch['kept'],
): Promise<{ id: string; name: string }[]> {
  await keepEarlyTasks(tx, kept);
  const done = tasks.filter(({ is_early }) => !is_early).map(({ id, name }) => ({ id, name }));
  return [...done, ...kept];
}

/** Cancels begun subtasks with their children, unless this step has already. */
export async function dropEarly(
  step: Pick<WorkflowLook, 'tx' | 'run' | 'tasks' | 'events' | 'cancelled'>,
  dropped: readonly ScheduledTask[],
): Promise<void> {
  const { tx, run } = step;
  const open = dropped.filter(({ status }) => status !== 'cancelled');
  for (const { id, run_id } of open) {
    become(step, id, { status: 'cancelled' });
    if (run_id) {
      const ref = { tenantId: run.tenant_id, runId: run_id };
      step.cancelled.push(...(await cancelChild(tx, ref, 'not part of the plan')));
    }
    const payload = { task_id: id, ...(run_id && { run_id }) };
    step.events.push({ type: 'task.cancelled', actor: 'system', turn_id: run.open_turn_id ?? undefined, payload });
  }
  // After their runs: whoever erases one of these holds it before its task.
  await dropEarlyTasks(
    tx,
    open.map(({ id }) => id),
  );
}
