/** Retries many runs at once, workflows among them, as after an outage. */
import type { Caller } from '../../core/caller.ts';
import { DroverError } from '../../core/errors.ts';
import { hasScope } from '../../core/scopes.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Tx } from '../../db/database.ts';
import { findRunRefs, listRunIds, type RunFilter } from '../../db/runs.ts';
import { recordAudit } from '../audit/record-audit.ts';
import type { Context } from '../governance/context.ts';
import {
  chooseOnce,
  idempotently,
  recallAnswer,
  type IdempotentAnswer,
  type IdempotentRequest,
} from '../tenants/idempotency.ts';
import { matchingRuns, type MatchingRuns } from '../runs/cancel-runs.ts';
import { rehearseRetry, retryRun, type RetryRun } from '../runs/retry-run.ts';
import { rehearseWorkflowRetry, retryWorkflow } from './restart-workflow.ts';

const AT_A_TIME = 5;

interface RetryFilter extends Pick<RunFilter, 'agentId' | 'threadId' | 'createdAfter' | 'createdBefore' | 'errorCode'> {
  status?: readonly ('failed' | 'cancelled')[] | undefined;
}

interface RetriedRuns {
  retried: number;
  runs: { run_id: string; new_run_id: string }[];
  /** Whether other runs match, or may. */
  more: boolean;
}

interface RetryRequest {
  filter: RetryFilter;
  isDryRun?: boolean | undefined;
  traceparent: string | undefined;
  idempotency: IdempotentRequest;
}

/**
 * Retries the failed (or, if asked for, cancelled) runs of the caller's workspace that match the filter, newest first, at most
 * `LIMITS.retryRuns`. Each has its own transaction; runs whose thread has gone on, as after a retry, are left out, so that a
 * repeated request continues an interrupted one. Under an `Idempotency-Key` it continues with the runs that matched at first:
 * they are stored before the first is retried, and then each with its new run. Where none of those that match may be retried,
 * by this key for instance, it looks at the ones before them. A dry run rehearses each retry: it tells of the same runs.
 */
export async function retryRuns(
  context: Context,
  caller: Caller,
  request: RetryRequest,
): Promise<IdempotentAnswer<RetriedRuns | MatchingRuns>> {
  const { idempotency, isDryRun } = request;
  const earlier = await recallAnswer(context, idempotency);
  if (earlier) return earlier as IdempotentAnswer<RetriedRuns | MatchingRuns>;
  const body = await (isDryRun ? matchFirst : retryFirst)(context, caller, request);
  return idempotently(context, idempotency, () => Promise.resolve({ status: 200, body }));
}

async function matchFirst(context: Context, caller: Caller, request: RetryRequest): Promise<MatchingRuns> {
  const { runs, more } = await firstThatMay(context, caller, { ...request, attempt: rehearsed });
  return { matching: runs.length, run_ids: runs, more };
}

async function retryFirst(context: Context, caller: Caller, request: RetryRequest): Promise<RetriedRuns> {
  const { runs, more } = await firstThatMay(context, caller, { ...request, attempt: retried });
  return { retried: runs.length, runs, more };
}

/** Retries a run, or rehearses that; throws a `DroverError` if it may not be. */
type Attempt<R> = (context: Context, request: RetryRun, isWorkflow: boolean) => Promise<R>;

const rehearsed: Attempt<string> = async (context, request, isWorkflow) => {
  await (isWorkflow ? rehearseWorkflowRetry : rehearseRetry)(context, request);
  return request.runId;
};

const retried: Attempt<RetriedRuns['runs'][number]> = async (context, request, isWorkflow) => {
  const { body } = await (isWorkflow ? retryWorkflow : retryRun)(context, request);
  return { run_id: request.runId, new_run_id: body.new_run_id };
};

interface Attempted<R> extends RetryRequest {
  attempt: Attempt<R>;
}

async function firstThatMay<R>(
  context: Context,
  caller: Caller,
  request: Attempted<R>,
): Promise<{ runs: R[]; more: boolean }> {
  const { idempotency } = request;
  const endsAtMs = performance.now() + LIMITS.retryLookMs;
  let before: string | undefined;
  for (let round = 1; ; round += 1) {
    const once = round === 1 ? idempotency : { ...idempotency, route: `${idempotency.route} (${round})` };
    const { run_ids: runIds, more } = await chooseOnce(context, once, (tx) =>
      chooseRuns(tx, caller, { ...request, before }),
    );
    const runs = await attemptEach(context, caller, { ...request, runIds });
    if (runs.length > 0 || !more || performance.now() > endsAtMs) return { runs, more };
    before = runIds.at(-1);
  }
}

async function chooseRuns(
  tx: Tx,
  caller: Caller,
  { filter, isDryRun, before }: RetryRequest & { before?: string | undefined },
): Promise<MatchingRuns> {
  const { workspaceId } = caller;
  const { status = ['failed'], ...rest } = filter;
  const details = { filter: { ...rest, status } };
  // The request is audited before it retries the first run.
  if (!isDryRun && before === undefined)
    await recordAudit(tx, caller, { action: 'runs.retried', target: ['workspace', workspaceId], details });
  const wanted = { ...rest, status: [...status], workspaceId, isRetryable: true, before, limit: LIMITS.retryRuns + 1 };
  return matchingRuns(await listRunIds(tx, wanted), LIMITS.retryRuns);
}

async function attemptEach<R>(
  context: Context,
  { tenantId, keyId: requestedBy, scopes }: Caller,
  { runIds, traceparent, idempotency, attempt }: Attempted<R> & { runIds: readonly string[] },
): Promise<R[]> {
  const runs: R[] = [];
  const mayRaiseAutonomy = hasScope(scopes, 'approvals:write');
  const refs = await context.db.withTenant(tenantId, (tx) => findRunRefs(tx, runIds));
  const workflows = new Set(refs.filter(({ kind }) => kind === 'workflow').map(({ id }) => id));
  for (let at = 0; at < runIds.length; at += AT_A_TIME) {
    const some = runIds.slice(at, at + AT_A_TIME).map((runId) => {
      const once = { ...idempotency, route: `${idempotency.route} ${runId}` };
      const request = { tenantId, runId, requestedBy, mayRaiseAutonomy, traceparent, idempotency: once };
      return unlessRefused(attempt(context, request, workflows.has(runId)));
    });
    runs.push(...(await Promise.all(some)).flat());
  }
  return runs;
}

/** Empty if the run cannot be retried: it already was, or its agent is gone. */
async function unlessRefused<R>(attempted: Promise<R>): Promise<R[]> {
  try {
    return [await attempted];
  } catch (error) {
    if (error instanceof DroverError && error.status < 500) return [];
    throw error;
  }
}
