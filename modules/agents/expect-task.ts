/** When a task may be done, as far as what agents have done before can tell. */
import type { Caller } from '../../core/caller.ts';
import { matchAgents, type Requirements } from '../../core/matching.ts';
import type { Tx } from '../../db/database.ts';
import { listWorkers } from '../../db/workers.ts';
import { toCandidate } from './find-workers.ts';

/** Of an agent of which nothing is known. */
const UNKNOWN_MS = 30_000;

/** How long the agent that fits best takes on average, in ms. */
export async function expectTaskMs(
  tx: Tx,
  { workspaceId }: Pick<Caller, 'workspaceId'>,
  requirements: Requirements,
): Promise<number> {
  const { required_capabilities: skills = [], preferred_agents: preferred } = requirements;
  // Without skills anybody may do it: those that are preferred are as good a guess as any.
  if (skills.length === 0 && !preferred) return UNKNOWN_MS;
  const ids = skills.length === 0 ? preferred : undefined;
  const workers = await listWorkers(tx, { workspaceId, skills: skills.map((skill) => [skill]), ids });
  const candidates = workers.map(toCandidate);
  const [best] = matchAgents(requirements, candidates);
  return candidates.find(({ id }) => id === best?.id)?.health.avg_latency_ms ?? UNKNOWN_MS;
}
