/** The way from a session to the log: one commit, one transaction, one round trip. */
import { toLogged } from '../../../core/events.ts';
import { newId } from '../../../lib/new-id.ts';
import { project } from '../../../core/project.ts';
import type { CallState } from '../../../core/state.ts';
import type { MessageRow } from '../../../db/claim-run.ts';
import type { CommitResult, OutboxRow, RunChange } from '../../../db/commit-run.ts';
import type { InitialCommit } from '../../../jobs/slot-reservation.ts';
import { toolCallJobId } from '../../../jobs/tool-call.ts';
import { creation } from './initial-commit.ts';
import { checkpointRow } from '../../run-log/checkpoint.ts';
import { commitOnce, retryWindowOf } from './commit-once.ts';
import { LostRunError } from '../../run-log/errors.ts';
import { reauthorizePending, reload } from './load.ts';
import { retryWhileUnavailable } from '../../run-log/retry-while-unavailable.ts';
import { noPending, type DriveSession } from './session.ts';

/**
 * Gives the run up for others in the same commit: until something comes for it, until the suspension is lifted, or with a job
 * that goes on: at once, after a while, after calls.
 */
export type HandOver = 'rest' | 'pause' | 'again' | { afterMs: number } | { awaitCalls: CallState[] };

const MOST_RETRIES = 20;

/**
 * Commits what is pending. Where others have appended meanwhile, or the tenant's governance has moved, nothing was
 * written: their events are folded first, or the calls gated again, and the commit is tried again; with a hand-over it
 * answers false instead, so that the caller decides anew.
 */
export async function commit(session: DriveSession, handOver?: HandOver): Promise<boolean> {
  for (let attempt = 0; attempt < MOST_RETRIES; attempt++) {
    const change = toChange(session, handOver);
    const outcome = await (session.initialCommit
      ? commitInitial(session, session.initialCommit, change)
      : commitOnce(session, change));
    if (outcome.ok) {
      committed(session, change, outcome);
      return true;
    }
    if (outcome.why !== 'governance' && outcome.why !== 'behind') throw new LostRunError(outcome.why);
    const catchUp = outcome.why === 'governance' ? reauthorizePending : reload;
    await retryWhileUnavailable(() => catchUp(session), retryWindowOf(session));
    if (!handOver) continue;
    // The calls of a hand-over may be others now, or none: the model's answer is committed before anything follows it.
    if (outcome.why === 'governance') await commit(session);
    return false;
  }
  throw new Error(`others kept appending to run ${session.run.id}`);
}

/** Nothing of the run is there before it, and whoever wants it waits: it is not retried. */
async function commitInitial(
  session: DriveSession,
  initialCommit: InitialCommit,
  change: RunChange,
): Promise<CommitResult> {
  const outcome = await session.context.commit(change);
  initialCommit.written(outcome);
  if (!outcome.ok) throw new LostRunError(outcome.why);
  session.initialCommit = null;
  return outcome;
}

function toChange(session: DriveSession, handOver: HandOver | undefined): RunChange {
  const { pending, run, state, base, initialCommit } = session;
  const events = initialCommit ? [...initialCommit.events, ...pending.events] : pending.events;
  const rows = project(
    {
      tenantId: session.tenantId,
      workspaceId: run.workspace_id,
      runId: run.id,
      lineage: run.lineage,
      firstSeq: initialCommit ? 1 : base.seq + 1,
      at: () => 'now',
    },
    events,
  );
  const change: RunChange = {
    tenant_id: session.tenantId,
    run_id: run.id,
    fence: session.fence,
    expect: base.seq,
    events: events.map(toLogged),
    runs: rows.runs,
    turns: rows.turns,
  };
  if (handOver === 'rest') change.rests = true;
  if (handOver) change.release = true;
  else change.lease_ms = session.context.config.leaseMs;
  if (rows.approvals.length > 0) change.approvals = rows.approvals;
  if (rows.policy_decisions.length > 0) change.policy_decisions = rows.policy_decisions;
  if (rows.plans.length > 0) change.plans = rows.plans;
  if (beginsCalls(pending)) change.governance = session.governance.version;
  if (pending.messages.length > 0) change.messages = pending.messages.map(toStored);
  if (pending.newCalls.length > 0) change.new_calls = pending.newCalls;
  if (pending.calls.length > 0) change.calls = pending.calls;
  if (pending.reservations.length > 0) change.reservations = pending.reservations;
  if (pending.waits.length > 0) change.waits = pending.waits;
  if (pending.closedWaits.length > 0) change.close_waits = pending.closedWaits;
  if (pending.gate) change.gate = pending.gate.name;
  if (pending.checkpoint) {
    change.checkpoint = checkpointRow({
      tenantId: session.tenantId,
      runId: run.id,
      parentId: session.lastCheckpointId,
      trigger: pending.checkpoint.trigger,
      state,
      chain: session.messages.at(-1)?.chain ?? '',
      id: pending.checkpoint.id,
    });
  }
  if (handOver && handOver !== 'rest' && handOver !== 'pause') change.outbox = [jobAfter(session, handOver)];
  return initialCommit ? { ...change, ...creation(initialCommit, change, rows) } : change;
}

/** Whether something leaves the process after the commit: not by a governance of before. */
function beginsCalls({ newCalls, events }: DriveSession['pending']): boolean {
  return newCalls.length > 0 || events.some(({ type }) => type === 'model.called' || type === 'tool.started');
}

/** The outcomes of its calls are the ledger's, not the message's. */
function toStored({ ordinal, role, content, chain }: MessageRow) {
  return { ordinal, role, content, chain };
}

function jobAfter(session: DriveSession, handOver: Exclude<HandOver, 'rest' | 'pause'>): OutboxRow {
  const traceparent = session.traceparent;
  const turnId = session.state.turn?.id;
  const ids = {
    tenantId: session.tenantId,
    runId: session.run.id,
    ...(turnId && { turnId }),
    ...(traceparent && { traceparent }),
  };
  if (handOver === 'again') return { id: newId(), queue: 'turns', payload: ids };
  if ('afterMs' in handOver) return { id: newId(), queue: 'turns', payload: ids, delay_ms: handOver.afterMs };
  const { steps: step } = session.state;
  const children = handOver.awaitCalls.map(({ id: callId, attempt }) => ({
    job_id: toolCallJobId(callId, attempt),
    payload: { ...ids, callId, attempt, step, governance: session.gatedAt.get(callId) },
  }));
  return { id: newId(), queue: 'tool-calls', payload: ids, children };
}

interface Committed {
  seq: number;
  fence: number;
  at: string;
  gate_ms?: number | null;
}

function committed(session: DriveSession, change: RunChange, result: Committed): void {
  session.base = session.state;
  if (change.events.length > 0) session.at = result.at;
  if (session.pending.checkpoint) {
    session.lastCheckpointId = session.pending.checkpoint.id;
    session.stepsAtCheckpoint = session.state.steps;
  }
  // A commit that was found in the log says nothing of the gate, which is looked at by itself then.
  if (session.pending.gate && result.gate_ms !== undefined) {
    session.gate = { ...session.pending.gate, waitMs: result.gate_ms ?? 0 };
  }
  session.pending = noPending();
  session.reauthorize = null;
  session.partial = null;
  if (result.seq !== session.base.seq) throw new Error(`run ${session.run.id} was committed at ${result.seq}`);
  if (change.outbox) session.context.outbox.send(session.run.id, result, change.outbox);
  if (change.events.length > 0)
    session.context.bus.publish({ runId: session.run.id, kind: 'advanced', seq: result.seq });
}
