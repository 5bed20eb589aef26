/** Counts uses of memories. No recall waits for a change of the agent's memory: what is used meanwhile is counted after it, all together. */
import type { Logger } from 'pino';
import { countAccesses, countLeftUses, type MemoryUse } from '../../db/memory-entries.ts';
import type { Database, Tx } from '../../db/database.ts';
import { newId } from '../../lib/new-id.ts';

interface UsedMemory {
  id: string;
  score: number;
  why: object;
}

/** Notes in the transaction of a recall what it has found, and counts it there or soon after. */
export async function countUses(
  { memoryUses }: { memoryUses: MemoryUses },
  tx: Tx,
  { use, used }: { use: MemoryUse; used: readonly UsedMemory[] },
): Promise<void> {
  if (used.length === 0) return;
  const noted = used.map(({ id, score, why }) => ({ access: newId(), id, score, why }));
  if (await countAccesses(tx, use, noted)) return;
  const ids = used.map(({ id }) => id);
  memoryUses.countLater(use, ids);
}

/** The uses that a process has still to count. Whoever is killed leaves them uncounted; where entries were used is noted in any case. */
export interface MemoryUses {
  /** Counts each of the entries once more when no change of the agent's memory is under way. */
  countLater(of: Pick<MemoryUse, 'tenantId' | 'agentId'>, ids: readonly string[]): void;
  /** Waits for those that are being counted. */
  close(): Promise<void>;
}

/** One connection waits for all uses of an agent's memory, so that a change that takes long does not hold one for each recall. */
export function createMemoryUses({ db, log }: { db: Database; log: Logger }): MemoryUses {
  /** By agent and entry, how often. */
  const left = new Map<string, Map<string, number>>();
  const counting = new Set<Promise<void>>();

  async function count(tenantId: string, agentId: string): Promise<void> {
    const take = () => {
      const counts = left.get(agentId) ?? new Map<string, number>();
      left.delete(agentId);
      return [...counts].map(([id, uses]) => ({ id, uses }));
    };
    try {
      await db.withTenant(tenantId, (tx) => countLeftUses(tx, { agentId, take }));
    } catch (error) {
      left.delete(agentId);
      log.warn({ err: error, agent_id: agentId }, 'uses of memories are not counted');
    }
  }

  return {
    countLater({ tenantId, agentId }, ids) {
      const known = left.get(agentId);
      const counts = known ?? new Map<string, number>();
      for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1);
      if (known) return;
      left.set(agentId, counts);
      const done = count(tenantId, agentId).finally(() => counting.delete(done));
      counting.add(done);
    },
    async close() {
      await Promise.all(counting);
    },
  };
}
