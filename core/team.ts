/** Composes teams (002, "Algorithm 2: Dynamic Team Composition"), and plans how they split work. Pure. */
import { matchAgents, type Candidate, type Match, type Requirements, type SimilarSkills } from './matching.ts';

interface Role {
  name: string;
  requirements?: Requirements | undefined;
  /** Roles that are not required are left out if nobody can play them. */
  required?: boolean | undefined;
  complexity_multiplier?: number | undefined;
}

export interface TeamTask {
  required_roles: readonly Role[];
  orchestration_pattern: 'hierarchical' | 'parallel' | 'sequential';
  max_team_size: number;
  /** Tokens for the whole team. */
  budget: number;
}

export interface CompositionWeights {
  diversity_weight: number;
  cost_weight: number;
  quality_weight: number;
}

export interface ComposedMember {
  role: string;
  agent_id: string;
  expected_cost: number;
  /** Absent if the agent has the required skills by their names. */
  substitutes?: Match['substitutes'];
}

/** The team, or the first required role that nobody can play within the remaining budget. */
export function composeTeam(
  task: TeamTask,
  pool: readonly Candidate[],
  { similar, ...weights }: CompositionWeights & { similar?: SimilarSkills | undefined },
): { team: ComposedMember[] } | { missing: string } {
  const team: ComposedMember[] = [];
  const used = new Set<string>();
  let remaining = task.budget;
  for (const role of inOrder(task)) {
    if (team.length >= task.max_team_size) break;
    const best = bestFor(role, pool, { used, remaining, weights, similar });
    if (!best && role.required !== false) return { missing: role.name };
    if (!best) continue;
    const { id: agent_id, cost: expected_cost, substitutes } = best;
    team.push({ role: role.name, agent_id, expected_cost, ...(substitutes.length > 0 && { substitutes }) });
    used.add(best.id);
    remaining -= best.cost;
  }
  const left = task.required_roles.find(
    ({ name, required }) => required !== false && !team.some(({ role }) => role === name),
  );
  return left ? { missing: left.name } : { team };
}

/** For hierarchical teams the supervisor's role is filled first, so that it does not get the leftovers. */
function inOrder({ required_roles, orchestration_pattern }: TeamTask): Role[] {
  if (orchestration_pattern !== 'hierarchical') return [...required_roles];
  const rank = ({ name }: Role) => (/supervisor/i.test(name) ? 0 : 1);
  return required_roles.toSorted((a, b) => rank(a) - rank(b));
}

interface Choice {
  used: ReadonlySet<string>;
  remaining: number;
  weights: CompositionWeights;
  similar: SimilarSkills | undefined;
}

/** The best member for a role. Agents already chosen are excluded if all must differ. */
function bestFor(
  role: Role,
  pool: readonly Candidate[],
  { used, remaining, weights, similar }: Choice,
): { id: string; cost: number; substitutes: Match['substitutes'] } | undefined {
  const costs = new Map(pool.map(({ id, health }) => [id, expectedCost(health, role)]));
  const [best] = matchAgents(role.requirements ?? {}, pool, similar)
    .filter(({ id }) => weights.diversity_weight <= 0 || !used.has(id))
    .map((match) => ({ ...match, cost: costs.get(match.id) ?? 0 }))
    .filter(({ cost }) => cost <= remaining)
    .map(({ id, score: match, cost, substitutes }) => {
      return { id, cost, substitutes, total: memberScore({ match, cost, remaining, hasRole: used.has(id) }, weights) };
    })
    .toSorted((a, b) => b.total - a.total || a.substitutes.length - b.substitutes.length);
  return best;
}

/** Score of an agent for a role, given a cost within the remaining budget. */
export function memberScore(
  { match, cost, remaining, hasRole }: { match: number; cost: number; remaining: number; hasRole: boolean },
  { quality_weight, cost_weight, diversity_weight }: CompositionWeights,
): number {
  const costScore = remaining > 0 ? 1 - cost / remaining : 1;
  return quality_weight * match + cost_weight * costScore + diversity_weight * (hasRole ? 0.5 : 1);
}

function expectedCost({ avg_tokens_per_task = 0 }: Candidate['health'], { complexity_multiplier = 1 }: Role): number {
  return avg_tokens_per_task * complexity_multiplier;
}

interface Team {
  orchestration_pattern: TeamTask['orchestration_pattern'];
  supervisor_agent_id: string | null;
  members: readonly { agent_id: string; role: string }[];
}

/** Whether an agent does the work of a team: its members do, and its supervisor. */
export function isInTeam({ supervisor_agent_id, members }: Omit<Team, 'orchestration_pattern'>, id: string): boolean {
  return id === supervisor_agent_id || members.some(({ agent_id }) => agent_id === id);
}

/** A subtask of a plan derived from how a team works. */
interface TeamSubtask {
  id: string;
  description: string;
  dependencies: string[];
  agent: string;
}

/**
 * The default plan of a team for a question that nobody has split. `members` are in order of priority. Parallel: each answers,
 * and the supervisor combines the answers. Sequential: each continues from the previous result. Hierarchical: the supervisor
 * answers.
 */
export function planOfTeam(
  { orchestration_pattern, supervisor_agent_id, members }: Team,
  question: string,
): TeamSubtask[] {
  const named = members.map(({ agent_id, role }, index) => ({ agent_id, id: `${index + 1}-${role}` }));
  const isSupervisor = ({ agent_id }: { agent_id: string }) => agent_id === supervisor_agent_id;
  const workers = named.some((member) => !isSupervisor(member))
    ? named.filter((member) => !isSupervisor(member))
    : named;
  switch (orchestration_pattern) {
    case 'hierarchical': {
      const agent = supervisor_agent_id ?? workers[0]?.agent_id;
      return agent === undefined ? [] : [{ id: 'answer', description: question, dependencies: [], agent }];
    }
    case 'parallel': {
      const answers = workers.map(({ id, agent_id }) => ({
        id,
        description: question,
        dependencies: [],
        agent: agent_id,
      }));
      if (supervisor_agent_id === null) return answers;
      const description = `${question}\n\nMake one answer of those that follow.`;
      return [
        ...answers,
        { id: 'merge', description, dependencies: answers.map(({ id }) => id), agent: supervisor_agent_id },
      ];
    }
    case 'sequential':
      return workers.map(({ id, agent_id }, index) => {
        const before = workers[index - 1];
        return { id, description: question, dependencies: before ? [before.id] : [], agent: agent_id };
      });
  }
}

/** Whether members who answer a question that nobody has split vote on the answer. */
export function isVoting({ orchestration_pattern, supervisor_agent_id }: Omit<Team, 'members'>): boolean {
  return orchestration_pattern === 'parallel' && supervisor_agent_id === null;
}

/** The most frequent answer; among equal ones the first. White space around answers is ignored. */
export function majority(answers: readonly string[]): string | undefined {
  const votes = new Map<string, number>();
  for (const answer of answers) votes.set(answer.trim(), (votes.get(answer.trim()) ?? 0) + 1);
  const [first] = [...votes].toSorted(([, a], [, b]) => b - a);
  return first?.[0];
}
