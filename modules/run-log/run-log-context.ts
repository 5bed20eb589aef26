import type { ProcessContext } from '../process-context.ts';
import type { GroupCommit } from './group-commit.ts';
import type { SuspectPlace } from './claim-suspect.ts';
import type { RunCache } from './run-cache.ts';
import type { SharedReads } from './shared-reads.ts';
import type { PositionWatch } from './watch-positions.ts';

/** Dependencies for reading and writing runs. */
export interface RunLogContext extends ProcessContext, GroupCommit {
  runCache: RunCache;
  suspectPlace: SuspectPlace;
  reads: SharedReads;
  /** Tells streams and other waiters the positions they watch. */
  positions: PositionWatch;
}
