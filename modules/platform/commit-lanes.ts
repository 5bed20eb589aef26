import type { Database } from '../../db/database.ts';
import type { Lanes } from '../run-log/group-commit.ts';

/** Commits in flight at a time; more would only make smaller groups. */
const COMMIT_LANES = 2;

/** Most late commits that others go round by further connections; two of the pool are left to everybody else. */
const LATE_COMMITS = 4;
const OTHERS = 2;

/** How commits share the connections of a pool. PGlite has one, and nobody goes round another there. */
export function commitLanes(kind: Database['kind'], poolSize: number): Required<Lanes> {
  const free = kind === 'pglite' ? 0 : poolSize - COMMIT_LANES - OTHERS;
  return { lanes: COMMIT_LANES, mostLate: Math.max(0, Math.min(LATE_COMMITS, free)) };
}
