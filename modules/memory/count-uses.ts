/**
 * Counts uses of memories. Recalls never wait for a change of the agent's memory: uses during one are counted after it,
 * together.
 */
import type { Logger } from 'pino';
import { countAccesses, countLeftUses, type MemoryUse } from '../../db/memory-uses.ts';
import type { Database, Tx } from '../../db/database.ts';
import { newId } from '../../lib/new-id.ts';

interface UsedMemory {
  id: string;
  score: number;
  why: object;
}

/** Records in a recall's transaction what it found, and counts it there or soon after. */
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

/**
 * Uses that this process has still to count. A killed process leaves them uncounted; where entries were used is
 * recorded anyway.
 */
export interface MemoryUses {
  /** Counts one use of each entry once no change of the agent's memory is under way. */
  countLater(of: Pick<MemoryUse, 'tenantId' | 'agentId'>, ids: readonly string[]): void;
  /** Waits for counts under way. */
  close(): Promise<void>;
}

/** Waits on one connection for all uses of an agent's memory: during a long change, recalls do not hold one each. */
export function createMemoryUses({ db, log }: { db: Database; log: Logger }): MemoryUses {
  /** Numbers of uses by agent and entry. */
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
