/** Chooses an agent for a task: the one it names, else the best match (002, "Algorithm 1"). */
import { LIMITS } from '../../../core/limits.ts';
import { matchAgents, toThousandths, type Match, type SimilarSkills } from '../../../core/matching.ts';
import { isInTeam } from '../../../core/team.ts';
import { findAgent } from '../../../db/agents.ts';
import { holdTaskPlaces } from '../../../db/agent-lifecycle.ts';
import type { ScheduledTask } from '../../../db/scheduled-tasks.ts';
import { findTeam } from '../../../db/teams.ts';
import { listWorkers, type WorkerFilter, type WorkerRow } from '../../../db/workers.ts';
import { namesOf, toCandidate } from '../../agents/discover-agents.ts';
import { readSimilarSkills, untriedSkills } from '../../agents/similar-skills.ts';
import { whyNotTaken } from '../../agents/why-not-taken.ts';
import type { Delay } from './later-look.ts';
import type { WorkflowLook } from './workflow-look.ts';

export interface Worker {
  agentId: string;
  reason: 'named' | 'matched' | 'workflow_agent' | 'handoff';
  score?: number;
  substitutes?: Match['substitutes'];
}

/** `none`: nobody can do it. A `Delay` says why nobody does it now. */
export type WorkerChoice = Worker | Delay | 'none';

/**
 * Chooses who does a task. If it names no agent and requires no skills, the workflow's own agent does it; without one,
 * any matching agent of the team, or else of the workspace. An agent that has failed at it is chosen again only if there
 * is no other. If nobody has a required skill by its name, a similar one will do.
 */
export async function chooseWorker(look: WorkflowLook, task: ScheduledTask): Promise<WorkerChoice> {
  const wanted = wantedFor(look, task);
  const { skills, preferred, isOpen } = wanted;
  let fit = await fitting(look, wanted, new Map());
  if (fit.matches.length === 0 && isOpen && skills.length > 0) {
    const { context, tx } = look;
    const untried = await untriedSkills(context, tx, skills);
    if (untried.length > 0) {
      look.untriedSkills = [...(look.untriedSkills ?? []), ...untried];
      return 'busy';
    }
    fit = await fitting(look, wanted, await readSimilarSkills(context, tx, skills));
  }
  const { found, matches } = fit;
  const fresh = matches.filter(({ id }) => !task.failed_agents.includes(id));
  const usable = fresh.length > 0 ? fresh : matches;
  if (usable.length === 0) return (await isAwaited(look, wanted)) ? 'busy' : 'none';
  const favourite = usable.find(({ id }) => id === preferred);
  const chosen = (favourite ? [favourite] : usable).find(({ id }) => isFree(found, id));
  if (!chosen) return 'busy';
  return (await takePlace(look, found, chosen.id)) ?? toWorker(chosen, wanted);
}

interface Wanted {
  task: ScheduledTask;
  skills: readonly string[];
  preferred: string | null;
  isOpen: boolean;
}

function wantedFor({ workflow: { agent_id: own, team_id } }: WorkflowLook, task: ScheduledTask): Wanted {
  const { required_capabilities: skills = [] } = task.requirements;
  const preferred = task.agent_id ?? (skills.length === 0 && team_id === null ? own : null);
  return { task, skills, preferred, isOpen: preferred === null || skills.length > 0 || team_id !== null };
}

/** Says why nobody can do it; if it is for a certain agent, what has become of that one. */
export async function whyNobody(look: WorkflowLook, task: ScheduledTask): Promise<string> {
  const { tx, workflow } = look;
  const { preferred, isOpen } = wantedFor(look, task);
  const team = await teamOf(look);
  if (team === 'deleted') return 'The team is deleted, and has no members.';
  const agent = preferred && (await findAgent(tx, preferred, workflow.workspace_id));
  const isGone = agent && team && !isInTeam(team, agent.id);
  const why = isGone ? `The agent ${agent.definition.name} is not in the team.` : agent && whyNotTaken(agent);
  if (!why) return 'No active agent has what the task requires.';
  return isOpen ? `${why} No other active agent has what the task requires.` : why;
}

/** Agents that could do it: the preferred one first, then the others, best first. */
async function fitting(
  look: WorkflowLook,
  wanted: Wanted,
  similar: SimilarSkills,
): Promise<{ found: WorkerRow[]; matches: Match[] }> {
  const { task, preferred } = wanted;
  const found = await candidates(look, wanted, { similar });
  const first = found.filter(({ id }) => id === preferred).map(toCandidate);
  const others = found.filter(({ id }) => id !== preferred).map(toCandidate);
  const matches = [
    ...matchAgents({ ...task.requirements, required_capabilities: [] }, first),
    ...matchAgents(task.requirements, others, similar),
  ];
  return { found, matches };
}

/** Whether an offline or suspended agent could do it: it will come back, or be deprecated at last. */
async function isAwaited(look: WorkflowLook, wanted: Wanted): Promise<boolean> {
  const { excluded_agents: excluded = [] } = wanted.task.requirements;
  const away = await candidates(look, wanted, { isAway: true });
  return away.some(({ id }) => !excluded.includes(id));
}

/** Agents to match. The preferred one need not claim the skills; its substitutes must. */
async function candidates(
  look: WorkflowLook,
  { task, skills, preferred, isOpen }: Wanted,
  { similar = new Map(), isAway }: { similar?: SimilarSkills; isAway?: true } = {},
): Promise<WorkerRow[]> {
  const team = await teamOf(look);
  // Only members do a team's work, whatever agent a task names: one may have left since. A deleted team has none.
  if (team === 'deleted') return [];
  const isMember = preferred !== null && (team === undefined || isInTeam(team, preferred));
  const named = isMember
    ? await lookUp(look, { skills: [], ids: [preferred], isAway, ...(!isOpen && { isHealthless: true }) })
    : [];
  const ids = team?.members.map(({ agent_id }) => agent_id);
  const names = namesOf(skills, similar);
  const others = isOpen ? await othersFor(look, task, { skills: names, ids, isAway }) : [];
  return [...named, ...others.filter(({ id }) => id !== preferred)];
}

/**
 * Of a team, or of those with the skills, all; of a whole workspace those among whom the best are. Of agents of which nothing is
 * known these are the oldest: they are passed over only where the task may not go to them, or this look has given them others.
 */
async function othersFor(
  look: WorkflowLook,
  { requirements, failed_agents }: ScheduledTask,
  wanted: Omit<WorkerFilter, 'workspaceId'>,
): Promise<WorkerRow[]> {
  if (wanted.skills.length > 0 || wanted.ids || wanted.isAway) return lookUp(look, wanted);
  const { excluded_agents: excluded = [], preferred_agents: liked = [] } = requirements;
  const passedOver = excluded.length + failed_agents.length + LIMITS.subtasksAtOnce;
  const unknown = passedOver < MOST_PASSED_OVER ? MOST_PASSED_OVER : undefined;
  const some = await lookUp(look, { ...wanted, unknown });
  const preferred = liked.length > 0 ? await lookUp(look, { skills: [], ids: liked }) : [];
  const all = new Map([...some, ...preferred].map((row) => [row.id, row]));
  // In the order of the list, which decides between equal ones.
  return [...all.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

/** As one number for all tasks, so that a look reads the list once. */
const MOST_PASSED_OVER = 200;

/** The workflow's team; undefined if it has none. */
async function teamOf(look: WorkflowLook): Promise<WorkflowLook['team']> {
  const { tx, workflow } = look;
  if (workflow.team_id) look.team ??= (await findTeam(tx, workflow.team_id)) ?? 'deleted';
  return look.team;
}

/** Looks up the workflow's own agent, which does tasks that are for nobody else. */
export async function lookUpOwn(look: WorkflowLook): Promise<void> {
  const { agent_id: own, team_id } = look.workflow;
  if (own !== null && team_id === null) await lookUp(look, { skills: [], ids: [own], isHealthless: true });
}

/** Lists agents, once a look for all of its tasks: summing up a week of their runs is expensive. */
async function lookUp(
  { tx, workflow, workers }: WorkflowLook,
  wanted: Omit<WorkerFilter, 'workspaceId'>,
): Promise<WorkerRow[]> {
  const key = JSON.stringify(wanted);
  const known = workers.get(key) ?? (await listWorkers(tx, { workspaceId: workflow.workspace_id, ...wanted }));
  workers.set(key, known);
  return known;
}

/** Adds a task given in this look to the agent's running ones. */
export function countStart({ workers }: WorkflowLook, agentId: string): void {
  for (const [key, rows] of workers) {
    workers.set(
      key,
      rows.map((row) => (row.id === agentId ? { ...row, running: row.running + 1 } : row)),
    );
  }
}

/** Whether the agent has room for one more task, by what was read. */
export function isFree(workers: readonly WorkerRow[], id: string): boolean {
  const worker = workers.find((each) => each.id === id);
  return (worker?.running ?? 0) < (worker?.definition.constraints?.max_concurrent_tasks ?? Infinity);
}

/** The part of a look that taking a place needs. `isDelegated`: the task is that of a run that waits for it. */
type PlaceLook = Pick<WorkflowLook, 'tx'> & Partial<Pick<WorkflowLook, 'places'>> & { isDelegated?: true };

/**
 * Takes a place of an agent that several workflows may see free at the same time. Returns undefined if taken, else why
 * not. A caller with a place starts the task or fails.
 */
export async function takePlace(
  { tx, places = new Map(), isDelegated }: PlaceLook,
  workers: readonly WorkerRow[],
  id: string,
): Promise<Delay | undefined> {
  const most = workers.find((each) => each.id === id)?.definition.constraints?.max_concurrent_tasks;
  if (most === undefined) return undefined;
  const running = places.get(id) ?? (await holdTaskPlaces(tx, id, { isDelegated }));
  if (running === undefined) return 'contended';
  if (running >= most) return 'busy';
  places.set(id, running + 1);
  return undefined;
}

function toWorker({ id, score, substitutes }: Match, { task, preferred, isOpen }: Wanted): Worker {
  if (id === task.agent_id) return { agentId: id, reason: 'named' };
  if (!isOpen) return { agentId: id, reason: 'workflow_agent' };
  const reason = id === preferred ? 'workflow_agent' : 'matched';
  return { agentId: id, reason, score: toThousandths(score), substitutes };
}
