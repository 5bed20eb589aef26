import type { Database } from '../../db/database.ts';
import type { Lanes } from '../run-log/group-commit.ts';

/** The most concurrent commits; more would only make smaller groups. */
const COMMIT_LANES = 2;

/** The most late commits that others bypass on further connections; two of the pool stay free for other work. */
const LATE_COMMITS = 4;
const OTHERS = 2;

/** How commits share a pool's connections. PGlite has one, so none are bypassed there. */
export function commitLanes(kind: Database['kind'], poolSize: number): Required<Lanes> {
  const free = kind === 'pglite' ? 0 : poolSize - COMMIT_LANES - OTHERS;
  return { lanes: COMMIT_LANES, mostLate: Math.max(0, Math.min(LATE_COMMITS, free)) };
}
