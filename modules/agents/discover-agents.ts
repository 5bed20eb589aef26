/** Finds agents by their skills: for a task, a team, or a client. */
import type { Caller } from '../../core/caller.ts';
import { DroverError } from '../../core/errors.ts';
import { matchAgents, type Candidate, type Match, type SimilarSkills } from '../../core/matching.ts';
import { composeTeam, type ComposedMember, type CompositionWeights, type TeamTask } from '../../core/team.ts';
import type { AgentDefinition } from '../../core/definition.ts';
import type { AgentStatus } from '../../core/agent-lifecycle.ts';
import { listAgentsById } from '../../db/agents.ts';
import { countWorkers, listWorkers, readLastActive, type WorkerRow } from '../../db/workers.ts';
import type { Tx } from '../../db/database.ts';
import type { ProcessContext } from '../process-context.ts';
import { HASTY, learnSkills, readSimilarSkills } from './similar-skills.ts';

/** An agent for matching. Results of its runs of the last seven days override registered health. */
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

type Capability = NonNullable<AgentDefinition['capabilities']>[number];

interface Discovery {
  capabilities: readonly string[];
  domain?: string | undefined;
  /** Default 0.5 for a skill or a domain. */
  minProficiency?: number | undefined;
  /** By default, agents that may get a task. */
  status?: AgentStatus | undefined;
  limit: number;
}

interface DiscoveredAgent {
  id: string;
  definition: AgentDefinition;
  status: AgentStatus;
  score: number;
  /** The parts of the score. */
  parts: Match['parts'];
  substitutes: Match['substitutes'];
  health: Candidate['health'] & { last_active?: string };
}

/**
 * Matching agents of the caller's workspace, best first, and their total number. Skills with other names but nearly the
 * same meaning match, too.
 */
export async function discoverAgents(
  context: Pick<ProcessContext, 'db' | 'embeddings' | 'log'>,
  caller: Caller,
  wanted: Discovery,
): Promise<{ agents: DiscoveredAgent[]; total: number }> {
  const { capabilities: skills, status } = wanted;
  const { tenantId, workspaceId } = caller;
  if (skills.length > 0) await learnSkills(context, { tenantId, workspaceId, names: skills }, HASTY);
  return context.db.withTenant(tenantId, async (tx) => {
    const similar = await readSimilarSkills(context, tx, skills);
    const among = { workspaceId, statuses: status ? [status] : (['active', 'idle'] as const) };
    const unknown = isOpen(wanted) ? wanted.limit : undefined;
    const found = await listWorkers(tx, { ...among, skills: namesOf(skills, similar), unknown });
    const matches = matchAgents({ required_capabilities: skills }, candidatesOf(found, wanted), similar);
    const total = isOpen(wanted) ? await countWorkers(tx, among) : matches.length;
    return { agents: await shownOf(tx, matches.slice(0, wanted.limit), found), total };
  });
}

/** Whether any agent will do, whatever it can. */
function isOpen({ capabilities, domain, minProficiency }: Discovery): boolean {
  return capabilities.length === 0 && domain === undefined && !minProficiency;
}

/** For each skill, all names that match it. */
export function namesOf(skills: readonly string[], similar: SimilarSkills): string[][] {
  return skills.map((skill) => [...new Set([skill, ...(similar.get(skill)?.keys() ?? [])])]);
}

async function shownOf(tx: Tx, matches: readonly Match[], workers: readonly WorkerRow[]): Promise<DiscoveredAgent[]> {
  const ids = matches.map(({ id }) => id);
  const byId = new Map(workers.map((worker) => [worker.id, worker]));
  const agents = new Map((await listAgentsById(tx, ids)).map((agent) => [agent.id, agent]));
  const lastActive = await readLastActive(tx, ids);
  return matches.flatMap(({ id, ...match }) => {
    const [worker, agent] = [byId.get(id), agents.get(id)];
    if (!worker || !agent) return [];
    const at = lastActive.get(id);
    const health = { ...toCandidate(worker).health, ...(at && { last_active: at.toISOString() }) };
    return [{ id, definition: agent.definition, status: agent.status, ...match, health }];
  });
}

/**
 * The agents with the capabilities that count: proficient enough and in the domain, if given. Without skills, those with
 * any such capability.
 */
function candidatesOf(workers: readonly WorkerRow[], wanted: Discovery): Candidate[] {
  const { capabilities: skills, domain, minProficiency } = wanted;
  const counts = ({ proficiency = 0.5, domain: of }: Capability) =>
    proficiency >= (minProficiency ?? 0.5) && (domain === undefined || of === domain);
  return workers
    .map((worker) => ({ ...toCandidate(worker), capabilities: (worker.definition.capabilities ?? []).filter(counts) }))
    .filter(({ capabilities }) => skills.length > 0 || isOpen(wanted) || capabilities.length > 0);
}

/**
 * Composes a team for a task from the workspace's agents; skills with nearly the same meaning match. Throws 422
 * `InsufficientAgents` with the role that cannot be filled.
 */
export async function composeTeamFor(
  context: Pick<ProcessContext, 'db' | 'embeddings' | 'log'>,
  { tenantId, workspaceId }: Caller,
  { task, weights }: { task: TeamTask; weights: CompositionWeights },
): Promise<ComposedMember[]> {
  const skills = task.required_roles.flatMap(({ requirements }) => requirements?.required_capabilities ?? []);
  if (skills.length > 0) await learnSkills(context, { tenantId, workspaceId, names: skills }, HASTY);
  const composed = await context.db.withTenant(tenantId, async (tx) => {
    const similar = await readSimilarSkills(context, tx, skills);
    // Without any of these skills an agent can play a role only if the role needs none.
    const areNeeded = task.required_roles.every(({ requirements }) => requirements?.required_capabilities?.length);
    const pool = await listWorkers(tx, { workspaceId, skills: areNeeded ? [namesOf(skills, similar).flat()] : [] });
    return composeTeam(task, pool.map(toCandidate), { ...weights, similar });
  });
  if ('team' in composed) return composed.team;
  throw new DroverError('InsufficientAgents', 422, `No agent can play the role ${composed.missing}.`, {
    extra: { role: composed.missing },
  });
}
