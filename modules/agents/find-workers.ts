/** Looks for agents by what they can do: for a task, for a team, or for whoever asks. */
import type { Caller } from '../../core/caller.ts';
import { DroverError } from '../../core/errors.ts';
import { matchAgents, type Candidate } from '../../core/matching.ts';
import { composeTeam, type ComposedMember, type CompositionWeights, type TeamTask } from '../../core/team.ts';
import type { AgentDefinition } from '../../core/definition.ts';
import type { AgentStatus } from '../../core/agent-lifecycle.ts';
import { listWorkers, type WorkerRow } from '../../db/agents.ts';
import type { Tx } from '../../db/database.ts';

/** An agent as matching knows it. What its runs of the last seven days have shown counts before what was registered. */
export function toCandidate({ id, definition, running, health }: WorkerRow): Candidate {
  const { capabilities = [], constraints } = definition;
  return {
    id,
    capabilities,
    health: { ...definition.health, ...health },
    running,
    maxConcurrentTasks: constraints?.max_concurrent_tasks,
  };
}

export interface Discovery {
  capabilities: readonly string[];
  domain?: string | undefined;
  minProficiency: number;
  /** Without one, those that may be given a task. */
  status?: AgentStatus | undefined;
  limit: number;
}

export interface DiscoveredAgent {
  id: string;
  definition: AgentDefinition;
  status: AgentStatus;
  score: number;
  health: Candidate['health'];
}

/** The agents of the caller's workspace that fit, best first, and how many fit in all. */
export async function discoverAgents(
  tx: Tx,
  caller: Caller,
  wanted: Discovery,
): Promise<{ agents: DiscoveredAgent[]; total: number }> {
  const { capabilities: skills, status } = wanted;
  const found = await listWorkers(tx, {
    workspaceId: caller.workspaceId,
    skills,
    statuses: status ? [status] : ['active', 'idle'],
  });
  const fitting = found.filter(({ definition }) => isFit(definition, wanted));
  const candidates = fitting.map(toCandidate);
  const agents = matchAgents({ required_capabilities: skills }, candidates).flatMap(({ id, score }) => {
    const row = fitting.find((each) => each.id === id);
    const known = candidates.find((each) => each.id === id);
    return row && known ? [{ id, definition: row.definition, status: row.status, score, health: known.health }] : [];
  });
  return { agents: agents.slice(0, wanted.limit), total: agents.length };
}

/** Each skill that is asked for at the proficiency that is asked for; in the domain, where one is; without skills, any one that fits. */
function isFit(
  { capabilities = [] }: AgentDefinition,
  { capabilities: skills, domain, minProficiency }: Discovery,
): boolean {
  const fitting = capabilities.filter(
    (known) => (known.proficiency ?? 0.5) >= minProficiency && (domain === undefined || known.domain === domain),
  );
  if (skills.length === 0) return domain === undefined || fitting.length > 0;
  return skills.every((skill) => fitting.some(({ skill_name }) => skill_name === skill));
}

/** A team for a task out of the workspace's agents. Throws 422 `InsufficientAgents` with the role that nobody can play. */
export async function composeTeamFor(
  tx: Tx,
  caller: Caller,
  { task, weights }: { task: TeamTask; weights: CompositionWeights },
): Promise<ComposedMember[]> {
  const pool = await listWorkers(tx, { workspaceId: caller.workspaceId, skills: [] });
  const composed = composeTeam(task, pool.map(toCandidate), weights);
  if ('team' in composed) return composed.team;
  throw new DroverError('InsufficientAgents', 422, `No agent can play the role ${composed.missing}.`, {
    extra: { role: composed.missing },
  });
}
