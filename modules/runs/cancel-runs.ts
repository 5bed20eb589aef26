/** Cancels many runs at once. */
import { RUN_STATUSES, TERMINAL, type RunStatus } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import { listRunIds, type RunFilter } from '../../db/runs.ts';
import type { Context } from '../governance/context.ts';
import type { Caller } from '../../core/caller.ts';
import { cancelUnlessEnded } from './end-run.ts';
import { reasonGiven, recordAudit } from '../audit/record-audit.ts';

const AT_A_TIME = 5;

const UNFINISHED = RUN_STATUSES.filter((status) => !TERMINAL.includes(status));

interface CancelFilter extends Pick<RunFilter, 'agentId' | 'threadId' | 'createdAfter' | 'createdBefore'> {
  status?: readonly RunStatus[] | undefined;
}

interface CancelRequest {
  filter: CancelFilter;
  reason?: string | undefined;
  isDryRun?: boolean | undefined;
}

interface CancelledRuns {
  cancelled: number;
  run_ids: string[];
  /** Whether other runs match, or may. */
  more: boolean;
}

/** The runs that a request would act on. */
export interface MatchingRuns {
  matching: number;
  run_ids: string[];
  more: boolean;
}

/** The first `most` of the runs found; `found` has one more if there are others. */
export function matchingRuns(found: readonly { id: string }[], most: number): MatchingRuns {
  const run_ids = found.slice(0, most).map(({ id }) => id);
  return { matching: run_ids.length, run_ids, more: found.length > run_ids.length };
}

/**
 * Cancels the unfinished runs of the caller's workspace that match the filter, newest first, at most `LIMITS.cancelRuns`. Each
 * in a transaction of its own; runs that end by themselves meanwhile are not counted.
 */
export async function cancelRuns(
  context: Context,
  caller: Caller,
  { filter, reason, isDryRun }: CancelRequest,
): Promise<CancelledRuns | MatchingRuns> {
  const status = UNFINISHED.filter((each) => filter.status?.includes(each) ?? true);
  const wanted = { ...filter, status, workspaceId: caller.workspaceId, limit: LIMITS.cancelRuns + 1 };
  const found = await context.db.withTenant(caller.tenantId, async (tx) => {
    // The request is audited before it cancels the first run.
    const details = { filter: { ...filter, status }, ...reasonGiven(reason) };
    if (!isDryRun)
      await recordAudit(tx, caller, { action: 'runs.cancelled', target: ['workspace', caller.workspaceId], details });
    return listRunIds(tx, wanted);
  });
  const matching = matchingRuns(found, LIMITS.cancelRuns);
  if (isDryRun) return matching;
  const run_ids: string[] = [];
  for (let at = 0; at < matching.run_ids.length; at += AT_A_TIME) {
    const some = matching.run_ids.slice(at, at + AT_A_TIME).map(async (id) => {
      if (await cancelUnlessEnded(context, { tenantId: caller.tenantId, runId: id, by: caller }, reason))
        run_ids.push(id);
    });
    await Promise.all(some);
  }
  return { cancelled: run_ids.length, run_ids: run_ids.toSorted(), more: matching.more };
}
