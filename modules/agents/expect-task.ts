/** Estimates when a task will be done from what agents have done before. */
import type { Caller } from '../../core/caller.ts';
import { matchAgents, type Requirements } from '../../core/matching.ts';
import type { Tx } from '../../db/database.ts';
import { listWorkers } from '../../db/workers.ts';
import { toCandidate } from './discover-agents.ts';

/** For an agent without history. */
const UNKNOWN_MS = 30_000;

/** The average time of the best matching agent, in ms. */
export async function expectTaskMs(
  tx: Tx,
  { workspaceId }: Pick<Caller, 'workspaceId'>,
  requirements: Requirements,
): Promise<number> {
  const { required_capabilities: skills = [], preferred_agents: preferred } = requirements;
  // Without skills any agent may do it: the preferred ones are as good a guess as any.
  if (skills.length === 0 && !preferred) return UNKNOWN_MS;
  const ids = skills.length === 0 ? preferred : undefined;
  const workers = await listWorkers(tx, { workspaceId, skills: skills.map((skill) => [skill]), ids });
  const candidates = workers.map(toCandidate);
  const [best] = matchAgents(requirements, candidates);
  return candidates.find(({ id }) => id === best?.id)?.health.avg_latency_ms ?? UNKNOWN_MS;
}
