/** Who works on a task: the agent that it names, else the one that fits it best (002, "Algorithm 1"). */
import { matchAgents, type Match, type SimilarSkills } from '../../../core/matching.ts';
import { findAgent } from '../../../db/agents.ts';
import { holdTaskPlaces } from '../../../db/agent-lifecycle.ts';
import type { ScheduledTask } from '../../../db/scheduled-tasks.ts';
import { findTeam } from '../../../db/teams.ts';
import { listWorkers, type WorkerFilter, type WorkerRow } from '../../../db/workers.ts';
import { namesOf, toCandidate } from '../../agents/find-workers.ts';
import { readSimilarSkills, untriedSkills } from '../../agents/similar-skills.ts';
import { whyNotTaken } from '../../agents/why-not-taken.ts';
import type { Delay } from './later-look.ts';
import type { WorkflowLook } from './workflow-look.ts';

export interface Worker {
  agentId: string;
  reason: 'named' | 'matched' | 'workflow_agent' | 'handoff';
  score?: number;
}

/** `none`: nobody can do it. Else why nobody does it now. */
export type WorkerChoice = Worker | Delay | 'none';

/**
 * Without required skills, and where no agent is named, the workflow's own agent does it; without one, any agent of its team,
 * or else of the workspace, that fits. One who has failed at it already is taken again only where there is nobody else. Where
 * nobody has a skill of that name, one that means much the same will do.
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

/** Why nobody can do it: what has become of the agent that it is for, where there is one. */
export async function whyNobody(look: WorkflowLook, task: ScheduledTask): Promise<string> {
  const { tx, workflow } = look;
  const { preferred, isOpen } = wantedFor(look, task);
  if ((await teamOf(look)) === 'deleted') return 'The team is deleted, and has no members.';
  const agent = preferred && (await findAgent(tx, preferred, workflow.workspace_id));
  const why = agent ? whyNotTaken(agent) : undefined;
  if (why === undefined) return 'No active agent has what the task requires.';
  return isOpen ? `${why} No other active agent has what the task requires.` : why;
}

/** Those that could do it, the one that comes first before all others, and these best first. */
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

/** Whether somebody who is offline or suspended could do it: agents come back, or are deprecated at last. */
async function isAwaited(look: WorkflowLook, wanted: Wanted): Promise<boolean> {
  const { excluded_agents: excluded = [] } = wanted.task.requirements;
  const away = await candidates(look, wanted, { isAway: true });
  return away.some(({ id }) => !excluded.includes(id));
}

/** An agent that is named need not claim the skills; whoever takes its place has to. */
async function candidates(
  look: WorkflowLook,
  { skills, preferred, isOpen }: Omit<Wanted, 'task'>,
  { similar = new Map(), isAway }: { similar?: SimilarSkills; isAway?: true } = {},
): Promise<WorkerRow[]> {
  const team = await teamOf(look);
  // A team's work is done by its members; one that is gone has none, whoever was named while it was there.
  if (team === 'deleted') return [];
  const named = preferred
    ? await lookUp(look, { skills: [], ids: [preferred], isAway, ...(!isOpen && { isHealthless: true }) })
    : [];
  const ids = team?.members.map(({ agent_id }) => agent_id);
  const names = namesOf(skills, similar);
  const others = isOpen ? await lookUp(look, { skills: names, ids, isAway }) : [];
  return [...named, ...others.filter(({ id }) => id !== preferred)];
}

/** The team that the workflow is of, as a look finds it; undefined where it is of none. */
async function teamOf(look: WorkflowLook): Promise<WorkflowLook['team']> {
  const { tx, workflow } = look;
  if (workflow.team_id) look.team ??= (await findTeam(tx, workflow.team_id)) ?? 'deleted';
  return look.team;
}

/** Looks up the workflow's own agent, which does what nobody else is asked for. */
export async function lookUpOwn(look: WorkflowLook): Promise<void> {
  const { agent_id: own, team_id } = look.workflow;
  if (own !== null && team_id === null) await candidates(look, { skills: [], preferred: own, isOpen: false });
}

/** Once a look, whatever number of tasks it starts: what the agents' runs of a week have shown is dear to sum up. */
async function lookUp(
  { tx, workflow, workers }: WorkflowLook,
  wanted: Omit<WorkerFilter, 'workspaceId'>,
): Promise<WorkerRow[]> {
  const key = JSON.stringify(wanted);
  const known = workers.get(key) ?? (await listWorkers(tx, { workspaceId: workflow.workspace_id, ...wanted }));
  workers.set(key, known);
  return known;
}

/** A task that an agent was given in this look counts among those that it has. */
export function countStart({ workers }: WorkflowLook, agentId: string): void {
  for (const [key, rows] of workers) {
    workers.set(
      key,
      rows.map((row) => (row.id === agentId ? { ...row, running: row.running + 1 } : row)),
    );
  }
}

/** Whether it has room for one more task, as far as was read. */
export function isFree(workers: readonly WorkerRow[], id: string): boolean {
  const worker = workers.find((each) => each.id === id);
  return (worker?.running ?? 0) < (worker?.definition.constraints?.max_concurrent_tasks ?? Infinity);
}

/**
 * Of several workflows that see the same agent free at the same time, as many get it as it takes. Whoever gets it starts, or
 * fails to; who does not is told why.
 */
export async function takePlace(
  { tx, places = new Map() }: Pick<WorkflowLook, 'tx'> & Partial<Pick<WorkflowLook, 'places'>>,
  workers: readonly WorkerRow[],
  id: string,
): Promise<Delay | undefined> {
  const most = workers.find((each) => each.id === id)?.definition.constraints?.max_concurrent_tasks;
  if (most === undefined) return undefined;
  const running = places.get(id) ?? (await holdTaskPlaces(tx, id));
  if (running === undefined) return 'contended';
  if (running >= most) return 'busy';
  places.set(id, running + 1);
  return undefined;
}

function toWorker({ id, score }: Match, { task, preferred, isOpen }: Wanted): Worker {
  if (id === task.agent_id) return { agentId: id, reason: 'named' };
  if (!isOpen) return { agentId: id, reason: 'workflow_agent' };
  const rounded = Math.round(score * 1000) / 1000;
  return { agentId: id, reason: id === preferred ? 'workflow_agent' : 'matched', score: rounded };
}
