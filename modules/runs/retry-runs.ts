/** Retries many runs at once, as after an outage. */
import type { Caller } from '../../core/caller.ts';
import { DroverError } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { listRunIds, type RunFilter } from '../../db/runs.ts';
import { recordAudit } from '../audit/record-audit.ts';
import type { Context } from '../governance/context.ts';
import { matchingRuns, type MatchingRuns } from './cancel-runs.ts';
import { retryOnce } from './retry-run.ts';

const AT_A_TIME = 5;

interface RetryFilter extends Pick<RunFilter, 'agentId' | 'threadId' | 'createdAfter' | 'createdBefore' | 'errorCode'> {
  status?: readonly ('failed' | 'cancelled')[] | undefined;
}

interface RetriedRuns {
  retried: number;
  runs: { run_id: string; new_run_id: string }[];
  /** Whether there are, or may be, other runs that fit. */
  more: boolean;
}

interface RetryRequest {
  filter: RetryFilter;
  isDryRun?: boolean | undefined;
  traceparent: string | undefined;
}

/**
 * Retries the runs of the caller's workspace that have failed and fit the filter, newest first, `LIMITS.retryRuns` at most.
 * Each is a transaction of its own; a run whose thread has gone on, as with an earlier retry, is none of them. So the same
 * request again goes on where one was cut off.
 */
export async function retryRuns(
  context: Context,
  caller: Caller,
  { filter, isDryRun, traceparent }: RetryRequest,
): Promise<RetriedRuns | MatchingRuns> {
  const { tenantId, workspaceId } = caller;
  const { status = ['failed'], ...rest } = filter;
  const wanted = { ...rest, status: [...status], workspaceId, isRetryable: true, limit: LIMITS.retryRuns + 1 };
  const found = await context.db.withTenant(tenantId, async (tx) => {
    const details = { filter: { ...rest, status } };
    // The request is in the audit log before the first run is retried by it.
    if (!isDryRun)
      await recordAudit(tx, caller, { action: 'runs.retried', target: ['workspace', workspaceId], details });
    return listRunIds(tx, wanted);
  });
  const matching = matchingRuns(found, LIMITS.retryRuns);
  if (isDryRun) return matching;
  const runs: RetriedRuns['runs'] = [];
  for (let at = 0; at < matching.run_ids.length; at += AT_A_TIME) {
    const some = matching.run_ids.slice(at, at + AT_A_TIME).map(async (run_id) => {
      const new_run_id = await retryUnlessGoneOn(context, {
        tenantId,
        runId: run_id,
        requestedBy: caller.keyId,
        traceparent,
      });
      if (new_run_id !== undefined) runs.push({ run_id, new_run_id });
    });
    await Promise.all(some);
  }
  return { retried: runs.length, runs, more: matching.more };
}

/** The new run; undefined where it cannot be: it was retried meanwhile, or its agent is not there any more. */
async function retryUnlessGoneOn(...request: Parameters<typeof retryOnce>): Promise<string | undefined> {
  try {
    return await retryOnce(...request);
  } catch (error) {
    if (error instanceof DroverError && error.status < 500) return undefined;
    throw error;
  }
}
