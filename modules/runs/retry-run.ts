/** Retries a failed or cancelled run from its last checkpoint. */
import { conflict, notFound } from '../../core/errors.ts';
import { isTerminal } from '../../core/events.ts';
import type { Tx } from '../../db/database.ts';
import { rehearse } from '../../db/rehearse.ts';
import { lastUnerasedRun } from '../../db/runs.ts';
import type { SessionOfThread } from '../../db/sessions.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Context } from '../governance/context.ts';
import { announceAppended, type Announcement } from '../run-log/append-to-run.ts';
import { forkRun, type ForkedRun } from './creation/fork-run.ts';
import { openThreadOf } from './creation/open-thread.ts';
import { lockOriginal } from './lock-original.ts';
import { waitingMessage, type WaitingMessage } from './message-queue.ts';
import { idempotently, type IdempotentAnswer, type IdempotentRequest } from '../tenants/idempotency.ts';
import { lastStartPoint } from './creation/start-point.ts';

/** The run, and the requester. */
export interface RetryRun {
  tenantId: string;
  runId: string;
  /** The requesting key. */
  requestedBy?: string | undefined;
  /** Whether the requester may let the run do more than its agent lets new ones do. */
  mayRaiseAutonomy: boolean;
  traceparent: string | undefined;
  idempotency: IdempotentRequest;
}

/** A retry that is only rehearsed is not repeated. */
export type RehearsedRetry = Omit<RetryRun, 'idempotency'>;

export interface RetriedRun {
  id: string;
  run_id: string;
  new_run_id: string;
  thread_id: string;
  turn_id?: string;
  status: 'running' | 'awaiting_human';
  retried_from: string;
}

/**
 * Starts a run on the same thread that repeats the last turn's input, or continues it from its last checkpoint. Effects of the
 * failed run since then are answered from its record. Throws 409 if the run has not failed or been cancelled, or the thread
 * has gone on.
 */
export async function retryRun(context: Context, request: RetryRun): Promise<IdempotentAnswer<RetriedRun>> {
  let written: Announcement | undefined;
  const answer = await idempotently<RetriedRun>(context, request.idempotency, async (tx) => {
    const forked = await retryIn(context, tx, request);
    written = forked.written;
    const { runId, threadId, turnId, status } = forked;
    const ids = {
      id: runId,
      run_id: runId,
      new_run_id: runId,
      thread_id: threadId,
      ...(turnId && { turn_id: turnId }),
    };
    return { status: 202, body: { ...ids, status, retried_from: request.runId } };
  });
  if (written) announceAppended(context, written);
  return answer;
}

/** Throws what `retryRun` would; nothing is left of it. */
export function rehearseRetry(context: Context, request: RehearsedRetry): Promise<void> {
  return rehearse(context.db, request.tenantId, (tx) => retryIn(context, tx, request));
}

async function retryIn(
  { models }: Pick<Context, 'models'>,
  tx: Tx,
  { runId, requestedBy, mayRaiseAutonomy, traceparent }: RehearsedRetry,
): Promise<ForkedRun> {
  const { original, place, session, waiting } = await retryable(tx, runId);
  return forkRun(tx, {
    models,
    original,
    from: await lastStartPoint(tx, original),
    mode: 'live',
    rerunEffects: false,
    modified: {},
    config: {},
    mayRaiseAutonomy,
    retryAtPlace: place,
    session,
    waiting,
    requestedBy,
    traceparent,
  });
}

interface Retryable {
  original: RunRow;
  /** The retry's number on the thread. */
  place: number;
  /** The session whose thread it is. */
  session: SessionOfThread | undefined;
  /** The message that waits in the thread's run before the retry. */
  waiting: WaitingMessage | undefined;
}

/** The run, and the place of its retry on the thread. Throws 409 if it cannot be retried. */
async function retryable(tx: Tx, runId: string): Promise<Retryable> {
  const found = await requireRetryable(tx, runId);
  if (found.original.kind === 'workflow') throw conflict('The run is a workflow.');
  return found;
}

/** The same for runs of any kind; locks the run and its thread. Throws 404, 409. */
export async function requireRetryable(tx: Tx, runId: string): Promise<Retryable> {
  const { run, thread } = await lockOriginal(tx, runId);
  if (run.parent_task_id) throw conflict('The run works on a task, whose workflow says what is tried again.');
  if (run.status !== 'failed' && run.status !== 'cancelled') {
    throw conflict(`The run is ${run.status}; only a failed or cancelled one can be retried.`, {
      status_of_run: run.status,
    });
  }
  if (!thread) throw notFound('The thread');
  const { last: newest, session } = await openThreadOf(tx, thread);
  const last = newest?.erased_at ? await lastUnerasedRun(tx, thread.id) : newest;
  if (!last || last.id === run.id) {
    return { original: run, place: thread.run_count + 1, session, waiting: newest && waitingMessage(newest) };
  }
  const then = isTerminal(last.status) ? 'replay this one from a checkpoint instead' : 'wait for its end';
  throw conflict(`The thread has gone on with run ${last.id}; ${then}.`, { run_id: last.id });
}
