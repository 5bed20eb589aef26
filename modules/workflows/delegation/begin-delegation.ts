/** Begins delegated work: chooses an agent, and creates the task and the child with its event. */
import { autonomyOf } from '../../../core/definition.ts';
import { unchangedBrief, type DelegatedWork } from '../../../core/brief.ts';
import { DroverError } from '../../../core/errors.ts';
import type { NewEvent } from '../../../core/events.ts';
import { canonicalJson } from '../../../core/canonical-json.ts';
import {
  assignmentReason,
  matchAgents,
  toThousandths,
  type Match,
  type SimilarSkills,
} from '../../../core/matching.ts';
import type { RunRow } from '../../../db/claim-run.ts';
import type { Tx } from '../../../db/database.ts';
import { findTeamOfRun, listBriefs, type Delegation } from '../../../db/delegations.ts';
import { memberIds } from '../../../db/teams.ts';
import { countLentPlaces, noteAssigned } from '../../../db/agent-lifecycle.ts';
import { changeTask, insertTasks, type NewTask } from '../../../db/tasks.ts';
import { listWorkers, type WorkerFilter, type WorkerRow } from '../../../db/workers.ts';
import { namesOf, toCandidate } from '../../agents/discover-agents.ts';
import { readSimilarSkills, untriedSkills } from '../../agents/similar-skills.ts';
import type { Context } from '../../governance/context.ts';
import type { Announcement } from '../../run-log/append-to-run.ts';
import { writeRun } from '../../runs/create-run.ts';
import { isFree, takePlace } from '../advance/choose-worker.ts';
import type { Delay } from '../advance/later-look.ts';

/** The part of a look that beginning a delegation needs. */
interface DelegationLook {
  context: Context;
  tx: Tx;
  run: RunRow;
  untriedSkills: string[];
}

interface Begun {
  written: Announcement;
  event: Pick<Extract<NewEvent, { type: 'task.assigned' }>, 'type' | 'payload'>;
}

/**
 * Begins a delegation, or returns why it has to wait; `untriedSkills` are to be looked up first then. Throws a
 * `DroverError`, which the model reads, if nobody can do it or if an agent hands on its own brief unchanged.
 */
export async function beginDelegation(look: DelegationLook, delegation: Delegation): Promise<Begun | Delay> {
  const { context, tx, run } = look;
  const { id, task_status } = delegation;
  const asked = delegation.arguments;
  await mustBeNew(tx, run, asked.description);
  const named = asked.agent === undefined ? undefined : await findNamed(look, asked.agent);
  const worker = named ? await namedDelegate(look, named) : await chooseDelegate(look, asked);
  if (task_status === null) {
    await insertTasks(tx, [taskOf(run, { id, agentId: named?.row.id ?? null }, asked)]);
    // If it cannot begin after all, the caller ends its task, too.
    delegation.task_status = 'pending';
  }
  if (worker === 'busy' || worker === 'contended') return worker;
  const { autonomy_level } = run.config;
  const { max_cost_tokens } = asked;
  const { body, written } = await writeRun(context, tx, {
    tenantId: run.tenant_id,
    workspaceId: run.workspace_id,
    agentId: worker.agentId,
    input: { message: messageFor(asked) },
    config: {
      ...(max_cost_tokens !== undefined && { budget: { max_tokens: max_cost_tokens } }),
      // A child may not do more on its own than its parent.
      ...(autonomy_level !== undefined && { autonomy_level: Math.min(autonomy_level, worker.autonomyLevel) }),
    },
    mayRaiseAutonomy: false,
    child: { parent: run, taskId: id, attempt: 0 },
    traceparent: delegation.traceparent ?? run.traceparent ?? undefined,
  });
  const { agentId: agent_id, reason, score } = worker;
  await noteAssigned(tx, agent_id);
  await changeTask(tx, id, {
    to: 'in_progress',
    run_id: body.run_id,
    agent_id,
    reason: assignmentReason(worker),
  });
  const payload = {
    task_id: id,
    run_id: body.run_id,
    agent_id,
    attempt: 1,
    reason,
    ...(score !== undefined && { score }),
  };
  return { written, event: { type: 'task.assigned', payload } };
}

function taskOf(
  run: RunRow,
  { id, agentId }: { id: string; agentId: string | null },
  { description, capability, context, max_cost_tokens }: DelegatedWork,
): NewTask {
  return {
    id,
    tenantId: run.tenant_id,
    workspaceId: run.workspace_id,
    workflowId: null,
    parent: { runId: run.id, taskId: run.parent_task_id },
    name: 'delegated',
    place: 0,
    description,
    input: context === undefined ? null : { context },
    requirements: { ...(capability !== undefined && { required_capabilities: [capability] }), max_cost_tokens },
    agentId,
    dependencies: [],
    deadline: null,
  };
}

/** Throws if the brief is the agent's own, or one from above: passing it on only costs money. */
async function mustBeNew(tx: Tx, run: RunRow, description: string): Promise<void> {
  const same = unchangedBrief(description, await listBriefs(tx, run.id));
  if (!same) return;
  const whose = same.run_id === run.id ? 'you were given' : `an agent above you was given (run ${same.run_id})`;
  throw new DroverError(
    'unchanged_brief',
    409,
    `This is the very task that ${whose}, so it was not handed on. Do it yourself, or delegate a part of it in words of its own.`,
  );
}

interface Delegate {
  agentId: string;
  autonomyLevel: number;
  reason: 'named' | 'matched';
  score?: number;
  substitutes?: Match['substitutes'];
}

/** Chooses a member of the team that the run works for, else any agent of the workspace; never the delegating one. */
async function chooseDelegate(
  look: DelegationLook,
  { capability, max_cost_tokens }: DelegatedWork,
): Promise<Delegate | Delay> {
  const asked = { required_capabilities: capability === undefined ? [] : [capability], max_cost_tokens };
  let fit = await fitting(look, asked, new Map());
  if (fit.matches.length === 0 && capability !== undefined) {
    const { context, tx } = look;
    const untried = await untriedSkills(context, tx, [capability]);
    look.untriedSkills.push(...untried);
    if (untried.length > 0) return 'busy';
    fit = await fitting(look, asked, await readSimilarSkills(context, tx, [capability]));
  }
  const { others, matches } = fit;
  if (matches.length === 0) {
    if (await isAwaited(look, fit.skills)) return 'busy';
    throw nobody(capability ? `No agent has the capability "${capability}".` : 'There is no other agent.', []);
  }
  const free = await firstFree(look, others, matches);
  const best = matches.find(({ id }) => id === free);
  const row = others.find(({ id }) => id === free);
  if (!best || !row) return 'busy';
  const delegate: Delegate = {
    agentId: row.id,
    autonomyLevel: autonomyOf(row.definition),
    reason: 'matched',
    score: toThousandths(best.score),
    substitutes: best.substitutes,
  };
  return (await takePlace({ tx: look.tx, isDelegated: true }, others, row.id)) ?? delegate;
}

/** The first of these with room for one more task; else the first whose tasks make room while they wait for what they delegated. */
async function firstFree(
  { tx }: DelegationLook,
  others: readonly WorkerRow[],
  wanted: readonly { id: string }[],
): Promise<string | undefined> {
  const free = wanted.find(({ id }) => isFree(others, id));
  if (free) return free.id;
  const lent = await countLentPlaces(
    tx,
    wanted.map(({ id }) => id),
  );
  const lending = others.map((row) => ({ ...row, running: row.running - (lent.get(row.id) ?? 0) }));
  return wanted.find(({ id }) => isFree(lending, id))?.id;
}

interface NamedAgent {
  row: WorkerRow;
  /** It takes no task now, but will later. */
  isAway: boolean;
}

/** The agent of this name or id, also one that is offline or suspended. */
async function findNamed(look: DelegationLook, agent: string): Promise<NamedAgent> {
  if (agent === look.run.agent_id) throw nobody('An agent cannot delegate to itself.', []);
  const others = await listOthers(look, { skills: [] });
  const here = calledSo(others, agent);
  if (here) return { row: here, isAway: false };
  const away = calledSo(await listOthers(look, { skills: [], isAway: true }), agent);
  if (!away) throw nobody(`There is no agent "${agent}" to delegate to.`, others);
  return { row: away, isAway: true };
}

function calledSo(others: readonly WorkerRow[], agent: string): WorkerRow | undefined {
  return others.find(({ id }) => id === agent) ?? others.find(({ definition }) => definition.name === agent);
}

async function namedDelegate(look: DelegationLook, { row, isAway }: NamedAgent): Promise<Delegate | Delay> {
  if (isAway || (await firstFree(look, [row], [row])) === undefined) return 'busy';
  const delegate: Delegate = { agentId: row.id, autonomyLevel: autonomyOf(row.definition), reason: 'named' };
  return (await takePlace({ tx: look.tx, isDelegated: true }, [row], row.id)) ?? delegate;
}

/** Whether an offline or suspended agent could do it: it will come back, or be deprecated at last. */
async function isAwaited(look: DelegationLook, skills: Fit['skills']): Promise<boolean> {
  return (await listOthers(look, { skills, isAway: true })).length > 0;
}

interface Wanted {
  required_capabilities: string[];
  max_cost_tokens: number | undefined;
}

interface Fit {
  others: WorkerRow[];
  matches: Match[];
  /** The skills that they were looked for with, each with the names that count for it. */
  skills: readonly (readonly string[])[];
}

/** Agents that could do it, best first. */
async function fitting(look: DelegationLook, wanted: Wanted, similar: SimilarSkills): Promise<Fit> {
  const skills = namesOf(wanted.required_capabilities, similar);
  const others = await listOthers(look, { skills });
  return { others, matches: matchAgents(wanted, others.map(toCandidate), similar), skills };
}

async function listOthers(
  { tx, run }: DelegationLook,
  wanted: Pick<WorkerFilter, 'skills' | 'isAway'>,
): Promise<WorkerRow[]> {
  const teamId = await findTeamOfRun(tx, run.id);
  const ids = teamId === undefined ? undefined : await memberIds(tx, teamId);
  const found = await listWorkers(tx, { workspaceId: run.workspace_id, ...wanted, ...(ids && { ids }) });
  return found.filter(({ id }) => id !== run.agent_id);
}

const MOST_NAMES = 20;

function nobody(message: string, others: readonly WorkerRow[]): DroverError {
  const names = others.slice(0, MOST_NAMES).map(({ definition }) => definition.name);
  const there = names.length > 0 ? ` There are: ${names.join(', ')}.` : '';
  return new DroverError('InsufficientAgents', 422, `${message}${there}`);
}

function messageFor({ description, context }: DelegatedWork): string {
  if (context === undefined || context === null || context === '') return description;
  return `${description}\n\ncontext:\n${typeof context === 'string' ? context : canonicalJson(context)}`;
}
