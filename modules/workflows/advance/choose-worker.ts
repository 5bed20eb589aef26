/** Who works on a task: the agent that it names, else the one that fits it best (002, "Algorithm 1"). */
import { matchAgents, type Candidate, type Match } from '../../../core/matching.ts';
import { listWorkers, type WorkerRow } from '../../../db/agents.ts';
import type { ScheduledTask } from '../../../db/tasks.ts';
import type { WorkflowStep } from './workflow-step.ts';

export interface Worker {
  agentId: string;
  reason: 'named' | 'matched' | 'workflow_agent';
  score?: number;
}

/** `busy`: whoever could do it has as many tasks as it takes at a time. `none`: nobody can. */
export type WorkerChoice = Worker | 'busy' | 'none';

/**
 * Without required skills, and where no agent is named, the workflow's own agent does it; without one, any agent of the
 * workspace that fits. One who has failed at it already is taken again only where there is nobody else.
 */
export async function chooseWorker(step: WorkflowStep, task: ScheduledTask): Promise<WorkerChoice> {
  const { required_capabilities: skills = [] } = task.requirements;
  const preferred = task.agent_id ?? (skills.length === 0 ? step.workflow.agent_id : null);
  const isOpen = preferred === null || skills.length > 0;
  const found = await candidates(step, { skills, preferred, isOpen });
  const own = found.filter(({ id }) => id === preferred).map(toCandidate);
  const others = found.filter(({ id }) => id !== preferred).map(toCandidate);
  const matches = [
    ...matchAgents({ ...task.requirements, required_capabilities: [] }, own),
    ...matchAgents(task.requirements, others),
  ];
  const fresh = matches.filter(({ id }) => !task.failed_agents.includes(id));
  const usable = fresh.length > 0 ? fresh : matches;
  if (usable.length === 0) return 'none';
  const first = usable.find(({ id }) => id === preferred);
  const chosen = (first ? [first] : usable).find(({ id }) => isFree(found, id));
  return chosen ? toWorker(chosen, task.agent_id, preferred) : 'busy';
}

/** An agent that is named need not claim the skills; whoever takes its place has to. */
async function candidates(
  { tx, workflow }: WorkflowStep,
  { skills, preferred, isOpen }: { skills: readonly string[]; preferred: string | null; isOpen: boolean },
): Promise<WorkerRow[]> {
  const workspaceId = workflow.workspace_id;
  const named = preferred ? await listWorkers(tx, { workspaceId, skills: [], ids: [preferred] }) : [];
  const others = isOpen ? await listWorkers(tx, { workspaceId, skills }) : [];
  return [...named, ...others.filter(({ id }) => id !== preferred)];
}

function toCandidate({ id, definition, running }: WorkerRow): Candidate {
  const { capabilities = [], health = {}, constraints } = definition;
  return { id, capabilities, health, running, maxConcurrentTasks: constraints?.max_concurrent_tasks };
}

function isFree(workers: readonly WorkerRow[], id: string): boolean {
  const worker = workers.find((each) => each.id === id);
  return (worker?.running ?? 0) < (worker?.definition.constraints?.max_concurrent_tasks ?? Infinity);
}

function toWorker({ id, score }: Match, named: string | null, preferred: string | null): Worker {
  if (id === named) return { agentId: id, reason: 'named' };
  const rounded = Math.round(score * 1000) / 1000;
  return { agentId: id, reason: id === preferred ? 'workflow_agent' : 'matched', score: rounded };
}
