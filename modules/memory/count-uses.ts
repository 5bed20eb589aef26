/** Counts uses of memories. No recall waits for a change of the agent's memory: what is used meanwhile is counted after it, all together. */
import { countAccesses, countLeftUses, type MemoryUse } from '../../db/memory-entries.ts';
import type { Database, Tx } from '../../db/database.ts';
import { newId } from '../../lib/new-id.ts';
import type { MemoryContext } from './context.ts';

export interface UsedMemory {
  id: string;
  score: number;
  why: object;
}

/** By agent, what is still to be counted: by entry how often. Whoever is killed leaves it uncounted; where entries were used is noted in any case. */
type LeftUses = Map<string, Map<string, number>>;
const left = new WeakMap<Database, LeftUses>();

/** Notes in the transaction of a recall what it has found, and counts it there or soon after. */
export async function countUses(
  context: Pick<MemoryContext, 'db' | 'log'>,
  tx: Tx,
  { use, used }: { use: MemoryUse; used: readonly UsedMemory[] },
): Promise<void> {
  if (used.length === 0) return;
  const noted = used.map(({ id, score, why }) => ({ access: newId(), id, score, why }));
  if (await countAccesses(tx, use, noted)) return;
  const ids = used.map(({ id }) => id);
  countLater(context, use, ids);
}

/** One waits for all of an agent: a change that takes long holds one connection more, and not one for each recall. */
function countLater({ db, log }: Pick<MemoryContext, 'db' | 'log'>, use: MemoryUse, ids: readonly string[]): void {
  const { tenantId, agentId } = use;
  const agents: LeftUses = left.get(db) ?? new Map();
  left.set(db, agents);
  const isWaitedFor = agents.has(agentId);
  const counts = agents.get(agentId) ?? new Map<string, number>();
  for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1);
  agents.set(agentId, counts);
  if (isWaitedFor) return;
  const take = () => {
    agents.delete(agentId);
    const last = new Date();
    return [...counts].map(([id, uses]) => ({ id, uses, last }));
  };
  db.withTenant(tenantId, (tx) => countLeftUses(tx, { agentId, take })).catch((error: unknown) => {
    agents.delete(agentId);
    log.warn({ err: error, agent_id: agentId }, 'uses of memories are not counted');
  });
}
