import type { ProcessContext } from '../process-context.ts';
import type { GroupCommit } from './group-commit.ts';
import type { RunCache } from './run-cache.ts';
import type { SharedReads } from './shared-reads.ts';
import type { PositionWatch } from './watch-positions.ts';

/** What reads and writes runs. */
export interface RunLogContext extends ProcessContext, GroupCommit {
  runCache: RunCache;
  reads: SharedReads;
  /** How far that is which somebody waits for. */
  positions: PositionWatch;
}
