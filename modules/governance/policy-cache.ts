/** Each tenant's governance as a process knows it: compiled once for each version, and read anew where it has moved. */
import type { Database, Tx } from '../../db/database.ts';
import { readGovernance, readGovernanceVersion } from '../../db/governance.ts';
import { toGovernance, type Governance } from './governance.ts';

export interface KnownGovernance {
  /** What this process has seen last, which may not hold any more: for a change that is refused then. */
  last(tenant: string): Governance | undefined;
  /** Reads it anew when it is asked for next. */
  forget(tenant: string): void;
  /** What holds at `version`, or at a later one. Costs nothing where the process has seen it. */
  at(tenant: string, version: number): Promise<Governance>;
  /** What holds now, within a transaction of the tenant that has changed none of it. */
  current(tx: Tx, tenant: string): Promise<Governance>;
}

/** Tenants whose governance a process keeps at hand. */
const MOST_KEPT = 1000;

export function createKnownGovernance(db: Database): KnownGovernance {
  const kept = new Map<string, Governance>();
  const read = async (tx: Tx, tenant: string) => {
    const governance = toGovernance(await readGovernance(tx));
    kept.delete(tenant);
    kept.set(tenant, governance);
    const oldest = kept.keys().next().value;
    if (kept.size > MOST_KEPT && oldest !== undefined) kept.delete(oldest);
    return governance;
  };
  return {
    last: (tenant) => kept.get(tenant),
    forget: (tenant) => void kept.delete(tenant),
    async at(tenant, version) {
      const known = kept.get(tenant);
      if (known?.version === version) return known;
      return db.withTenant(tenant, (tx) => read(tx, tenant));
    },
    async current(tx, tenant) {
      const known = kept.get(tenant);
      if (known && known.version === (await readGovernanceVersion(tx))) return known;
      return read(tx, tenant);
    },
  };
}
