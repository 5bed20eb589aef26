/** Makes task rows from a workflow's definition. */
import { impossible, type DroverError, type FieldError } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { isInTeam } from '../../core/team.ts';
import { findCycle, planFaults, remainingPaths } from '../../core/workflow.ts';
import { findAgentIds, listUnknownAgents } from '../../db/agents.ts';
import type { Tx } from '../../db/database.ts';
import { changePaths, listPaths } from '../../db/task-inputs.ts';
import { insertTasks, type NewTask, type TaskRequirements } from '../../db/tasks.ts';
import type { TeamRow } from '../../db/teams.ts';
import { newId } from '../../lib/new-id.ts';

export interface PlannedSubtask {
  id: string;
  description: string;
  dependencies: string[];
  required_capabilities?: string[] | undefined;
  /** Name or id. */
  agent?: string | undefined;
}

const PATH = 'body.definition.subtasks';

/** Throws 422 for an invalid plan, with the place of each fault. */
export function checkPlan(subtasks: readonly PlannedSubtask[]): void {
  if (subtasks.length > LIMITS.subtasksPerPlan) {
    throw impossible(`A plan has ${LIMITS.subtasksPerPlan} subtasks at most.`, [
      { path: PATH, message: 'is too long' },
    ]);
  }
  const count = subtasks.reduce((sum, { dependencies }) => sum + dependencies.length, 0);
  if (count > LIMITS.dependenciesPerPlan) {
    throw impossible(`The subtasks of a plan have ${LIMITS.dependenciesPerPlan} dependencies at most.`, [
      { path: PATH, message: 'have too many dependencies' },
    ]);
  }
  const faults = planFaults(subtasks).map(({ index, field, message }): FieldError => ({
    path: `${PATH}.${index}.${field}`,
    message,
  }));
  const [first] = faults;
  if (first) throw impossible(`${first.path} ${first.message}`, faults);
  const cycle = findCycle(subtasks);
  if (!cycle) return;
  const index = subtasks.findIndex(({ id }) => id === cycle[0]);
  const message = `is part of a circle: ${cycle.join(' → ')}`;
  throw impossible(`Circular dependency: ${cycle.join(' → ')}`, [{ path: `${PATH}.${index}.dependencies`, message }]);
}

interface PlanOwner {
  tenantId: string;
  workspaceId: string;
  workflowId: string;
}

interface PlanToWrite {
  subtasks: readonly PlannedSubtask[];
  known?: readonly { id: string; name: string }[];
  /** The team's own plan, which no client has sent. */
  isOfTeam?: boolean;
  /** The team that is to do a client's plan. */
  team?: TeamRow | undefined;
}

/** The tasks of a checked plan. Throws 422 for an unknown agent, or one outside the team. */
export async function tasksOf(
  tx: Tx,
  owner: PlanOwner,
  { subtasks, known = [], isOfTeam = false, team }: PlanToWrite,
): Promise<NewTask[]> {
  const names = subtasks.flatMap(({ agent }) => agent ?? []);
  const agents = names.length === 0 ? new Map<string, string>() : await findAgentIds(tx, owner.workspaceId, names);
  // A later plan may depend on finished tasks.
  const ids = new Map(known.map(({ id, name }) => [name, id]));
  for (const { id } of subtasks) ids.set(id, newId());
  return subtasks.map((subtask, index): NewTask => {
    const { id, description, dependencies, required_capabilities, agent } = subtask;
    const agentId = agent === undefined ? null : agents.get(agent);
    if (agentId === undefined) throw noAgent(agent ?? '', isOfTeam ? undefined : index);
    if (agentId !== null && team && !isInTeam(team, agentId)) throw noMember(agent ?? '', index);
    return {
      ...owner,
      id: ids.get(id) ?? '',
      name: id,
      place: known.length + index,
      description,
      input: null,
      requirements: required_capabilities ? { required_capabilities } : {},
      agentId,
      dependencies: [...new Set(dependencies)].map((dependency) => ids.get(dependency) ?? ''),
      deadline: null,
    };
  });
}

function noAgent(agent: string, index: number | undefined): DroverError {
  const fault =
    index === undefined
      ? { path: 'body.team_id', message: `names a team with an agent that was deprecated: ${agent}` }
      : unknownAgent(`${PATH}.${index}.agent`, agent);
  return impossible(`${fault.path} ${fault.message}`, [fault]);
}

function noMember(agent: string, index: number): DroverError {
  const fault = { path: `${PATH}.${index}.agent`, message: `names no member of the team: ${agent}` };
  return impossible(`${fault.path} ${fault.message}`, [fault]);
}

function unknownAgent(path: string, agent: string): FieldError {
  return { path, message: `names no agent of this workspace: ${agent}` };
}

/** Throws 422 if a task prefers or excludes an agent that the workspace does not have; a deprecated one is still its own. */
export async function checkRequirements(tx: Tx, workspaceId: string, requirements: TaskRequirements): Promise<void> {
  const { preferred_agents = [], excluded_agents = [] } = requirements;
  const named = [...preferred_agents, ...excluded_agents];
  const unknown = named.length === 0 ? [] : await listUnknownAgents(tx, workspaceId, named);
  const faults = Object.entries({ preferred_agents, excluded_agents }).flatMap(([field, ids]) =>
    [...ids.entries()]
      .filter(([, id]) => unknown.includes(id))
      .map(([index, id]) => unknownAgent(`body.requirements.${field}.${index}`, id)),
  );
  const [first] = faults;
  if (first) throw impossible(`${first.path} ${first.message}`, faults);
}

/** Recomputes each task's longest remaining path, by which tasks start; later plans lengthen the paths of earlier tasks. */
export async function renewPaths(tx: Tx, workflowId: string): Promise<void> {
  const tasks = await listPaths(tx, workflowId);
  const paths = remainingPaths(tasks.map(({ id, dependencies }) => ({ id, dependencies })));
  const now = tasks.map(({ id, path }) => ({ id, was: path, path: paths.get(id) ?? 1 }));
  await changePaths(
    tx,
    now.filter(({ was, path }) => was !== path).map(({ id, path }) => ({ id, path })),
  );
}

/** Stores tasks; returns the event that announces them. */
export async function writeTasks(tx: Tx, tasks: readonly NewTask[], replan: number) {
  const workflows = [...new Set(tasks.flatMap(({ workflowId }) => workflowId ?? []))];
  await Promise.all([insertTasks(tx, tasks), ...workflows.map((id) => renewPaths(tx, id))]);
  const planned = tasks.map(({ id, dependencies }) => ({ task_id: id, dependencies }));
  return { type: 'workflow.planned' as const, payload: { replan, tasks: planned } };
}
