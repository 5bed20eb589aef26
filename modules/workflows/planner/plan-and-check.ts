/** The steps of a workflow that ask a model: the plan, and the answer with its check. */
import { canonicalJson } from '../../../core/canonical-json.ts';
import { LIMITS } from '../../../core/limits.ts';
import { LEASES_LOST } from '../../../core/lost-leases.ts';
import { listScheduledTasks, type ScheduledTask } from '../../../db/scheduled-tasks.ts';
import type { Tx } from '../../../db/database.ts';
import { readResultsOf } from '../../../db/tasks.ts';
import { findTeam } from '../../../db/teams.ts';
import { listWorkerSkills } from '../../../db/workers.ts';
import {
  findWorkflow,
  forgetPlanning,
  keepDraft,
  readDraft,
  rememberPlan,
  rememberVerdict,
  type Draft,
  type WorkflowRow,
} from '../../../db/workflows.ts';
import type { Context } from '../../governance/context.ts';
import type { ToolFault } from '../../model-calls/tool-ask.ts';
import type { AppendedChange } from '../../run-log/append-to-run.ts';
import { effectsNote } from '../advance/settle-tasks.ts';
import { answersAsTeam, concluded, plainConclusion, resultOf, type Conclusion } from '../advance/conclude.ts';
import { tasksOf, writeTasks, type PlannedSubtask } from '../workflow-plan.ts';
import { append, type PlannedStep } from './append.ts';
import {
  askForPlan,
  askForSynthesis,
  askForVerdict,
  roomFor,
  type FinishedTask,
  type Planning,
} from './ask-planner.ts';
import {
  backFromPlanning,
  backToPlanning,
  dropEarly,
  keepEarly,
  listenToPlan,
  matchEarly,
  spoiledBy,
  worksOf,
} from './early-plan.ts';
import { giveBack, holdWorkflow } from './hold-workflow.ts';
import { failIn, jobFor, later, type GiveUp } from './later.ts';

/** What to ask a model for next. */
export type Need = 'plan' | 'answer';

interface Ref {
  tenantId: string;
  runId: string;
  stop: AbortSignal;
}

/** Asks the planner, and writes the result; goes on without a usable answer where that is possible. */
export async function planOrAnswer(context: Context, ref: Ref, need: Need): Promise<void> {
  await holdWorkflow(context, ref, async (held) => {
    const found = await context.db.withTenant(ref.tenantId, async (tx) => {
      const [workflow, tasks, results, kept] = await Promise.all([
        findWorkflow(tx, ref.runId),
        listScheduledTasks(tx, ref.runId),
        readResultsOf(tx, ref.runId),
        readDraft(tx, ref.runId),
      ]);
      if (!workflow || !isNeeded(need, workflow, tasks)) return undefined;
      const skills = need === 'plan' ? await skillsOf(tx, workflow) : undefined;
      const isOfTeam = need === 'answer' && answersAsTeam(workflow);
      const ofTeam = isOfTeam ? (await plainConclusion({ tx, tasks, workflow })).result : undefined;
      const done = tasks
        .filter(({ is_early }) => !is_early)
        .map((task) => ({ name: task.name, description: task.description, result: resultOf(task, results) }));
      const draft = kept?.tasks === done.length ? kept : undefined;
      return { workflow, done, skills, ofTeam, draft, ...begunOf(tasks) };
    });
    // Another process has asked between that look and this lease.
    if (!found) return giveBack(context, held.run);
    const planning: Planning = { ...held, context, workflow: found.workflow, answered: {} };
    // After an unfinished plan for gaps, the plan is asked for with the same gaps.
    const { workflow, draft } = found;
    if (need === 'plan') await plan(planning, { ...found, gaps: workflow.gaps, result: draft?.result });
    else await answer(planning, found);
  });
}

/** Whether the workflow still needs what a look found it to need. */
function isNeeded(need: Need, { is_planning, plans }: WorkflowRow, tasks: readonly ScheduledTask[]): boolean {
  const isUnplanned = is_planning || plans === 0;
  if (need === 'plan') return isUnplanned || tasks.length === 0;
  return !isUnplanned && tasks.length > 0 && tasks.every(({ status }) => status === 'completed');
}

/** What an unfinished plan has begun, in the form that a planner is told. */
function begunOf(tasks: readonly ScheduledTask[]): Pick<Known, 'begun' | 'failed' | 'told'> {
  const hopeless = new Set(tasks.filter(({ status }) => status === 'failed').map(({ name }) => name));
  const works = worksOf(tasks);
  const written = (isFailed: boolean) =>
    works
      .filter(({ id }) => hopeless.has(id) === isFailed)
      // Planners are not told of agents.
      .map((work) => canonicalJson({ ...work, agent: undefined }));
  return { begun: written(false), failed: written(true), told: works.map(({ id }) => id) };
}

/** At most so many skills are named to a planner. */
const MOST_SKILLS = 500;

/** Skills of the agents that may do the workflow's subtasks. */
async function skillsOf(tx: Tx, { workspace_id: workspaceId, team_id }: WorkflowRow): Promise<string[]> {
  const team = team_id === null ? undefined : await findTeam(tx, team_id);
  const ids = team_id === null ? undefined : (team?.members ?? []).map(({ agent_id }) => agent_id);
  return listWorkerSkills(tx, { workspaceId, ids, limit: MOST_SKILLS });
}

interface Known {
  done: FinishedTask[];
  /** Workers' skills, if read already. */
  skills: string[] | undefined;
  /** Subtasks that an unfinished plan has begun. */
  begun: string[];
  /** Those of them that have failed for good. */
  failed: string[];
  /** The names of both. */
  told: string[];
  /** A team's own answer, which only has to be checked. */
  ofTeam?: string | undefined;
  /** The answer that was made of these tasks before. */
  draft?: Draft | undefined;
}

/** `result`: the answer that has the gaps, if it is not the results as they are. */
async function plan(planning: Planning, known: Known & { gaps: string[]; result?: string | undefined }): Promise<void> {
  const isEager = planning.workflow.settings.execution === 'eager';
  const names = known.done.map(({ name }) => name);
  const early = listenToPlan(planning, { known: names, gaps: known.gaps, isFirst: known.told.length === 0 });
  const { context, run } = planning;
  const skills = known.skills ?? (await context.db.withTenant(run.tenant_id, (tx) => skillsOf(tx, planning.workflow)));
  const asked = await askForPlan(planning, { ...known, skills, onArguments: isEager ? early.hear : undefined });
  await early.written();
  const isForGaps = known.gaps.length > 0;
  // The answer that has the gaps is there already.
  const giveUp: GiveUp = isForGaps ? (step) => concludeIn(planning, step, { ...known, meets_criteria: false }) : failIn;
  if ('arguments' in asked) {
    const { subtasks, success_criteria } = asked.arguments;
    return writePlan(planning, { subtasks, criteria: success_criteria, gaps: known.gaps, told: known.told, giveUp });
  }
  const { fault } = asked;
  if (fault.code === 'unavailable') return later(planning, fault, giveUp);
  const { message } = fault;
  if (fault.code === 'lost') return append(planning, (step) => giveUp(step, LEASES_LOST));
  if (isForGaps || fault.code === 'unusable')
    return append(planning, (step) => giveUp(step, { code: 'InvalidPlan', message }));
  const query = planning.workflow.input.user_query ?? planning.workflow.name;
  await writePlan(planning, {
    subtasks: [{ id: 'answer', description: query, dependencies: [] }],
    criteria: '',
    gaps: [],
    giveUp,
  });
}

/** Answers from the results: without a usable synthesis, with the results as they are; without a usable check, unchecked. */
async function answer(planning: Planning, known: Known): Promise<void> {
  const { workflow } = planning;
  const { done } = known;
  const draft = known.draft ?? (await makeDraft(planning, known));
  if ('fault' in draft) return later(planning, draft.fault);
  const { result } = draft;
  if (!workflow.success_criteria) return conclude(planning, { done, result });
  // The plan for these was lost.
  if (draft.gaps) return plan(planning, { ...known, gaps: draft.gaps, result });
  const checked = await askForVerdict(planning, result ?? done.map((task) => task.result).join('\n\n'));
  if ('fault' in checked) {
    const { fault } = checked;
    if (fault.code !== 'unavailable') return conclude(planning, { done, result });
    return later(planning, fault, (step) => concludeIn(planning, step, { done, result }));
  }
  const { meets_criteria, gaps } = checked.arguments;
  const replans = Math.max(0, workflow.plans - 1);
  const mayReplan = replans < workflow.settings.max_replans && roomFor(done) > 0;
  if (meets_criteria || gaps.length === 0 || !mayReplan) {
    return conclude(planning, { done, result, meets_criteria, gaps });
  }
  await keep(planning, { ...draft, gaps });
  await plan(planning, { ...known, gaps, result });
}

/** Makes an answer, and keeps what a model was asked for if it is to be checked: it is not paid for at each try of the check. */
async function makeDraft(planning: Planning, { done, ofTeam }: Known): Promise<Draft | { fault: ToolFault }> {
  const tasks = done.length;
  if (ofTeam !== undefined || tasks <= 1) return { tasks, result: ofTeam };
  const made = await askForSynthesis(planning, done);
  if ('fault' in made && made.fault.code === 'unavailable') return made;
  const draft = { tasks, ...('arguments' in made && { result: made.arguments.result }) };
  if (planning.workflow.success_criteria) await keep(planning, draft);
  return draft;
}

function keep(planning: Planning, draft: Draft): Promise<void> {
  return append(planning, async ({ tx, run }) => {
    await keepDraft(tx, run.id, draft);
    return null;
  });
}

const TOO_LONG = {
  code: 'InvalidPlan',
  message: `With this plan the workflow would have more than ${LIMITS.subtasksPerPlan} tasks.`,
};

/** Writes a plan. `told`: names of begun subtasks that the planner knew of; undefined means all of them. */
function writePlan(
  planning: Planning,
  made: { subtasks: PlannedSubtask[]; criteria: string; gaps: string[]; told?: readonly string[]; giveUp: GiveUp },
): Promise<void> {
  return append(planning, async (step) => {
    const { tx, run, workflow, tasks } = step;
    // Some may have been submitted meanwhile.
    if (made.subtasks.length > roomFor(tasks.filter(({ is_early }) => !is_early))) return made.giveUp(step, TOO_LONG);
    const owner = { tenantId: run.tenant_id, workspaceId: run.workspace_id, workflowId: run.id };
    const match = await matchEarly(step, made.subtasks);
    const { told } = made;
    // A planner that is told of subtasks with effects may adopt them in their words: it is asked again.
    if (told && (await spoiledBy(step, match)).some(({ name }) => !told.includes(name)))
      return { events: [], ...jobFor(planning) };
    await dropEarly(step, match.dropped);
    // Again: they could have effects until they were cancelled.
    const spoiled = await spoiledBy(step, match);
    if (spoiled.length > 0) return made.giveUp(step, hadEffects(spoiled));
    const known = await keepEarly(step, match.kept);
    const rows = await tasksOf(tx, owner, { subtasks: match.fresh, known });
    const planned = await writeTasks(tx, rows, workflow.plans);
    await rememberPlan(tx, run.id, { criteria: made.criteria, gaps: made.gaps });
    const turnId = run.open_turn_id ?? undefined;
    const changes = workflow.is_planning ? [] : backToPlanning(run);
    const events = [...changes, ...step.events, { ...planned, actor: 'system' as const, turn_id: turnId }];
    return { events, ...jobFor(planning) };
  });
}

/** Why a plan is given up: nobody could tell which of its subtasks would repeat the effects. */
function hadEffects(spoiled: readonly { name: string; tools: string[] }[]): { code: string; message: string } {
  const names = spoiled.map(({ name }) => name).join(', ');
  const note = effectsNote([...new Set(spoiled.flatMap(({ tools }) => tools))]);
  return {
    code: 'InvalidPlan',
    message: `The plan is without what was begun before it was whole: ${names}. ${note}`,
  };
}

interface Answered {
  /** The tasks that the answer is made of. */
  done: readonly FinishedTask[];
  result?: string | undefined;
  meets_criteria?: boolean;
  gaps?: string[];
}

function conclude(planning: Planning, answered: Answered): Promise<void> {
  return append(planning, (step) => concludeIn(planning, step, answered));
}

/** Ends the workflow with its answer; if tasks have joined since the model was asked, the answer is made anew with them. */
async function concludeIn(
  planning: Planning,
  step: PlannedStep,
  { done, result, meets_criteria, gaps = [] }: Answered,
): Promise<AppendedChange> {
  const { tx, run } = step;
  const dropped = step.tasks.filter(({ is_early }) => is_early);
  // What a plan for gaps has begun that comes to nothing.
  if (dropped.length > 0) {
    await dropEarly(step, dropped);
    await forgetPlanning(tx, run.id);
  }
  const tasks = step.tasks.filter(({ is_early }) => !is_early);
  // Tasks are only ever added to a planned workflow: as many are the same.
  const isWhole = tasks.length === done.length && tasks.every(({ status }) => status === 'completed');
  if (!isWhole) {
    // The next plan may repeat what these have done.
    const spoiled = await spoiledBy(step, { dropped });
    if (spoiled.length > 0) return failIn(step, hadEffects(spoiled));
    return { events: step.events, ...jobFor(planning) };
  }
  const meetsCriteria = meets_criteria ?? null;
  const remembered = rememberVerdict(tx, run.id, { meets_criteria: meetsCriteria, gaps });
  const [plain] = await Promise.all([
    result === undefined ? plainConclusion({ ...step, tasks }) : undefined,
    remembered,
  ]);
  const conclusion: Conclusion = { result: result ?? plain?.result ?? '', meetsCriteria, gaps: gaps.length };
  return concluded({ ...step, tasks, events: [...step.events, ...backFromPlanning(run)] }, conclusion);
}
