/** Caches each tenant's governance in a process: compiled once per policy epoch, and read again when that has advanced. */
import { LRUCache } from 'lru-cache';
import type { Database, Tx } from '../../db/database.ts';
import { readGovernance, readPolicyEpoch } from '../../db/governance.ts';
import { toGovernance, type Governance } from './governance.ts';

export interface PolicyCache {
  /** The last known state, which may be outdated: for commits, which are refused under an outdated epoch. */
  last(tenantId: string): Governance | undefined;
  /** Makes the next request read it again. */
  forget(tenantId: string): void;
  /** The state at `epoch` or later. Costs nothing if the process has it. */
  at(tenantId: string, epoch: number): Promise<Governance>;
  /** The current state, in a transaction of the tenant that has not changed it. */
  current(tx: Tx, tenantId: string): Promise<Governance>;
}

/** The total weight of what a process keeps in memory. */
const MOST_KEPT = 50_000;
/** A tenant never weighs more: what weighs more than all that is kept would not be kept at all, and be read for each use. */
const MOST_WEIGHT = MOST_KEPT / 10;

export function createPolicyCache(db: Database): PolicyCache {
  const kept = new LRUCache<string, Governance>({ maxSize: MOST_KEPT, sizeCalculation: sizeOf });
  const read = async (tx: Tx, tenantId: string) => {
    const governance = toGovernance(await readGovernance(tx));
    kept.set(tenantId, governance);
    return governance;
  };
  return {
    last: (tenantId) => kept.get(tenantId),
    forget: (tenantId) => void kept.delete(tenantId),
    async at(tenantId, epoch) {
      const cached = kept.get(tenantId);
      if (cached?.epoch === epoch) return cached;
      return db.withTenant(tenantId, (tx) => read(tx, tenantId));
    },
    async current(tx, tenantId) {
      const cached = kept.get(tenantId);
      if (cached && cached.epoch === (await readPolicyEpoch(tx))) return cached;
      return read(tx, tenantId);
    },
  };
}

/** An entry's weight: tenant, rules, and ids of deleted and suspended things. */
function sizeOf({ rules, deletedTools, suspended: { agents, tools, servers } }: Governance): number {
  return Math.min(MOST_WEIGHT, 1 + 10 * rules.length + deletedTools.size + agents.size + tools.size + servers.size);
}
