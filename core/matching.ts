/** Ranks agents for a task: scores from 0 to 1 (002, "Algorithm 1: Capability-Based Agent Matching"). Pure. */

export interface Requirements {
  required_capabilities?: readonly string[] | undefined;
  preferred_agents?: readonly string[] | undefined;
  excluded_agents?: readonly string[] | undefined;
  max_cost_tokens?: number | undefined;
}

/** An agent in the registry, and its number of current tasks. */
export interface Candidate {
  id: string;
  capabilities: readonly { skill_name: string; proficiency?: number | undefined }[];
  health: {
    success_rate_7d?: number | undefined;
    avg_latency_ms?: number | undefined;
    avg_tokens_per_task?: number | undefined;
  };
  running: number;
  maxConcurrentTasks?: number | undefined;
}

/** A skill that stands for a required one of another name, and their similarity from 0 to 1. */
export interface Substitute {
  required: string;
  skill: string;
  similarity: number;
}

/** A candidate's score, its parts, and what stands for the required skills that it does not have by their names. */
export interface Match {
  id: string;
  score: number;
  parts: { capability: number; health: number; cost: number; availability: number; preference: number };
  substitutes: readonly Substitute[];
}

/** For each required skill: skill names of similar meaning, with their similarity from 0 to 1. */
export type SimilarSkills = ReadonlyMap<string, ReadonlyMap<string, number>>;

/** Minimum similarity for a skill of another name to do (002, "Algorithm 1"). */
export const LEAST_SIMILARITY = 0.7;

const WEIGHTS = { capability: 0.5, health: 0.25, cost: 0.15, availability: 0.1, preference: 0.1 };

/** Default proficiency. */
const DEFAULT_PROFICIENCY = 0.5;

/** Latency that scores 0. */
const SLOW_MS = 5000;

/**
 * Whether two names may mean the same. Embeddings know nothing of codes, versions and years, and find all of them alike:
 * words with digits must be the same.
 */
export function mayBeSimilar(left: string, right: string): boolean {
  return wordsWithDigits(left) === wordsWithDigits(right);
}

function wordsWithDigits(name: string): string {
  const words = name.toLowerCase().split(/[^\p{L}\p{M}\p{N}]+/u);
  return words.filter((word) => /\p{N}/u.test(word)).join(' ');
}

/** Says why an agent does a task, and which of its skills stand for those that are required. */
export function assignmentReason({
  reason,
  score,
  substitutes = [],
}: {
  reason: string;
  score?: number | undefined;
  substitutes?: readonly Substitute[] | undefined;
}): string {
  const stand = substitutes.map(
    ({ required, skill, similarity }) => `${skill} for ${required}, similarity ${similarity}`,
  );
  return [reason, ...(score === undefined ? [] : [`score ${score}`]), ...stand].join(', ');
}

export function toThousandths(value: number): number {
  return Math.round(value * 1000) / 1000;
}

/**
 * Candidates with all required capabilities that are not excluded, best first. Of equal ones, those with fewer substitutes
 * come first; others keep their order.
 */
export function matchAgents(
  requirements: Requirements,
  candidates: readonly Candidate[],
  similar: SimilarSkills = new Map(),
): Match[] {
  return candidates
    .flatMap((candidate) => matchOf(requirements, candidate, similar) ?? [])
    .toSorted((a, b) => b.score - a.score || a.substitutes.length - b.substitutes.length);
}

function matchOf(requirements: Requirements, candidate: Candidate, similar: SimilarSkills): Match | undefined {
  if (requirements.excluded_agents?.includes(candidate.id)) return undefined;
  const used = skillsUsed(requirements.required_capabilities ?? [], candidate.capabilities, similar);
  if (!used) return undefined;
  const parts = {
    capability: capabilityScore(used),
    health: healthScore(candidate.health),
    cost: costScore(candidate.health.avg_tokens_per_task, requirements.max_cost_tokens),
    availability: availabilityScore(candidate),
    preference: requirements.preferred_agents?.includes(candidate.id) ? 1 : 0,
  };
  const score = Object.entries(WEIGHTS).reduce(
    (sum, [part, weight]) => sum + weight * parts[part as keyof typeof parts],
    0,
  );
  return { id: candidate.id, score, parts, substitutes: substitutesOf(used, similar) };
}

interface UsedSkill {
  required: string;
  capability: Candidate['capabilities'][number];
}

/** The capability used for each required skill; undefined if one is missing. */
function skillsUsed(
  required: readonly string[],
  known: Candidate['capabilities'],
  similar: SimilarSkills,
): UsedSkill[] | undefined {
  const used: UsedSkill[] = [];
  for (const skill of required) {
    const capability = findCapability(skill, known, similar);
    if (!capability) return undefined;
    used.push({ required: skill, capability });
  }
  return used;
}

/** Mean proficiency in the required skills; 1 if none is required. */
function capabilityScore(used: readonly UsedSkill[]): number {
  if (used.length === 0) return 1;
  const sum = used.reduce((total, { capability }) => total + (capability.proficiency ?? DEFAULT_PROFICIENCY), 0);
  return sum / used.length;
}

function substitutesOf(used: readonly UsedSkill[], similar: SimilarSkills): Substitute[] {
  return used
    .filter(({ required, capability }) => capability.skill_name !== required)
    .map(({ required, capability: { skill_name: skill } }) => {
      return { required, skill, similarity: toThousandths(similar.get(required)?.get(skill) ?? 0) };
    });
}

/** The capability of that name, otherwise the most similar one above the threshold. */
export function findCapability<C extends { skill_name: string }>(
  skill: string,
  known: readonly C[],
  similar: SimilarSkills,
): C | undefined {
  const exact = known.find(({ skill_name }) => skill_name === skill);
  if (exact) return exact;
  const likeness = ({ skill_name }: C) => similar.get(skill)?.get(skill_name) ?? 0;
  const [best] = known.toSorted((a, b) => likeness(b) - likeness(a));
  return best && likeness(best) > LEAST_SIMILARITY ? best : undefined;
}

/** 0.6 success rate + 0.4 latency score; unknown figures count as perfect. */
export function healthScore({ success_rate_7d = 1, avg_latency_ms = 0 }: Candidate['health']): number {
  return 0.6 * success_rate_7d + 0.4 * (1 - Math.min(1, avg_latency_ms / SLOW_MS));
}

/** Share of the budget left after an average task; 1 without a budget. */
export function costScore(avgTokensPerTask = 0, maxCostTokens?: number): number {
  return maxCostTokens === undefined ? 1 : Math.max(0, 1 - avgTokensPerTask / maxCostTokens);
}

/** Share of its concurrent tasks that is free; 1 without a limit. */
export function availabilityScore({
  running,
  maxConcurrentTasks,
}: Pick<Candidate, 'running' | 'maxConcurrentTasks'>): number {
  return maxConcurrentTasks === undefined ? 1 : Math.max(0, 1 - running / maxConcurrentTasks);
}
