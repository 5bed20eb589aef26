import type { Caller } from '../../core/caller.ts';
import { hasScope } from '../../core/scopes.ts';

/** Whether the caller may be shown what is said in runs. A key that may only write changes things, and learns nothing by it. */
export function mayReadRuns({ scopes }: Pick<Caller, 'scopes'>): boolean {
  return hasScope(scopes, 'runs:read');
}
