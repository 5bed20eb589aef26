import type { ProcessContext } from '../context.ts';
import type { GroupCommit } from './group-commit.ts';
import type { RunCache } from './run-cache.ts';

/** What reads and writes runs. */
export interface RunLogContext extends ProcessContext, GroupCommit {
  runCache: RunCache;
}
