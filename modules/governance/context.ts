import type { OneByOne } from '../../lib/one-by-one.ts';
import type { DefinitionCache } from '../agents/definitions.ts';
import type { StartCache } from '../agents/start-cache.ts';
import type { BudgetCache } from '../budgets/budget-cache.ts';
import type { MemoryUses } from '../memory/count-uses.ts';
import type { RunLogContext } from '../run-log/run-log-context.ts';
import type { PolicyCache } from './policy-cache.ts';

/** Everything that a process works with, for API, workers, and the modules from this one upwards. */
export interface Context extends RunLogContext {
  governance: PolicyCache;
  budgets: BudgetCache;
  /** Agent and tool versions that runs have pinned. */
  definitions: DefinitionCache;
  /** What new runs start with. */
  starts: StartCache;
  /** The writers of each fragment of shared memory. */
  fragmentWriters: OneByOne;
  /** Uses of memories not counted yet. */
  memoryUses: MemoryUses;
}
