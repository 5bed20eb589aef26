/** Each tenant's governance as a process knows it: compiled once for each policy epoch, and read anew where that has advanced. */
import { LRUCache } from 'lru-cache';
import type { Database, Tx } from '../../db/database.ts';
import { readGovernance, readPolicyEpoch } from '../../db/governance.ts';
import { toGovernance, type Governance } from './governance.ts';

export interface PolicyCache {
  /** What this process has read last, which may be outdated: for commits, which are refused under an outdated epoch. */
  last(tenantId: string): Governance | undefined;
  /** Reads it anew when it is asked for next. */
  forget(tenantId: string): void;
  /** What holds at `epoch`, or at a later one. Costs nothing where the process has seen it. */
  at(tenantId: string, epoch: number): Promise<Governance>;
  /** What holds now, within a transaction of the tenant that has changed none of it. */
  current(tx: Tx, tenantId: string): Promise<Governance>;
}

/** Of tenants, and of what each of them has decided, a process keeps so many in memory. */
const MOST_KEPT = 50_000;

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

/** A tenant, its rules, and ids of what it has deleted and suspended. */
function sizeOf({ rules, deletedTools, suspended: { agents, tools, servers } }: Governance): number {
  return 1 + 10 * rules.length + deletedTools.size + agents.size + tools.size + servers.size;
}
