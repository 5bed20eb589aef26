/** Settles an attempt: commits its ledger row and event together. */
import { settledEvent, type SettledAs } from '../../core/decision-events/tool-calls.ts';
import { isTerminal } from '../../core/events.ts';
import { settleForGood, type Settlement } from '../../core/ledger.ts';
import { hasMovedOn } from '../../db/database.ts';
import type { ClaimResult } from '../../db/claim-run.ts';
import { lockToolCall } from '../../db/tool-calls.ts';
import type { Context } from '../governance/context.ts';
import { reportEvents } from '../run-log/report-events.ts';
import { settlementChange, withinOutputLimit, type OutputRoom } from '../run-log/settlement.ts';
import type { ToolCallJob } from '../../jobs/tool-calls.ts';
import { announceAppended, appendToRun, type AppendedChange } from '../run-log/append-to-run.ts';
import { endOf, type AttemptEnd, type MadeAttempt } from './attempt.ts';
import { applyLateResult } from './late-result.ts';
import { turnJob } from '../run-log/turn-job.ts';
import { appended, callEvent, giveUpAttempt } from './tool-call-events.ts';

/** Settles the attempt, or lets it be repeated. A late result counts while the outcome is unknown; after that it changes nothing. */
export async function settleToolCall(context: Context, job: ToolCallJob, made: MadeAttempt): Promise<AttemptEnd> {
  return (await settleAtOnce(context, job, made)) ?? (await settleUnderLock(context, job, made));
}

/**
 * The usual case, in one round trip: run and call are unchanged. Undefined if anything differs. If this process has capacity,
 * committing the last call also claims the run.
 */
async function settleAtOnce(context: Context, job: ToolCallJob, made: MadeAttempt): Promise<AttemptEnd | undefined> {
  const { change, end } = toSettlement(job, made);
  const { events, calls, waits, continuation, outbox = [] } = change;
  const slot = continuation && context.outbox.reserveSlot(job.tenantId);
  let claimed: ClaimResult | undefined;
  // The lease of a claim begins with the commit, so at the earliest when it is sent.
  const sinceMs = performance.now();
  try {
    const then_claim = slot && { lease_ms: context.config.leaseMs, known: context.runCache.position(job.runId) };
    const settling = {
      ...appended(job, events),
      ...(calls && { calls }),
      ...(waits && { waits }),
      ...(outbox.length > 0 && { outbox }),
      ...(continuation && { continuation }),
      output_limit: context.config.runOutputBytes,
      ...(then_claim && { then_claim }),
    };
    const result = await context.commit(settling);
    if (!result.ok) return undefined;
    claimed = result.claimed;
    const { agentId, call } = made.claim;
    reportEvents(context, { ...job, agentId, toolOf: () => call.name }, events);
    const sends = result.continued && continuation && !claimed?.ok;
    announceAppended(context, { runId: job.runId, ...result, outbox: sends ? [continuation] : outbox });
    if (slot && continuation && claimed?.ok)
      void context.outbox.drive(
        slot,
        { ...continuation.payload, runId: job.runId, seq: result.seq },
        { claimed, sinceMs },
      );
    return end;
  } catch (error) {
    if (hasMovedOn(error)) return undefined;
    throw error;
  } finally {
    if (!claimed?.ok) slot?.leave();
  }
}

/** An attempt of a driver. `claimId`: of its claim, unless the commit that inserted the call made it. */
export interface LostAttempt {
  made: MadeAttempt;
  claimId?: string | undefined;
  /** Of its driver. */
  fence: number;
}

/**
 * Settles the attempt of a driver that cannot commit it with its steps: like a worker's if nobody has claimed the run since, as
 * a late result if it was taken for lost, or only in its row if the run has ended. False if another driver has yet to examine
 * the call.
 */
export async function settleLostCall(
  context: Context,
  job: ToolCallJob,
  { made, claimId, fence }: LostAttempt,
): Promise<boolean> {
  let isUnderWay = false;
  const limitBytes = context.config.runOutputBytes;
  await appendToRun(context, job, async (run, tx) => {
    const now = await lockToolCall(tx, made.claim.call.id);
    if (now?.attempt !== made.claim.attempt || now.claim_id !== (claimId ?? null)) return null;
    if (now.status === 'unknown') return applyLateResult(tx, { run, call: now, limitBytes }, made);
    if (now.status !== 'running') return null;
    const room = { storedBytes: run.output_bytes, limitBytes };
    if (isTerminal(run.status)) return settledForGood(made, room);
    if (run.fence === fence) {
      const { change } = toSettlement(job, { ...made, settlement: withinOutputLimit(made.settlement, room) });
      return { ...change, continuation: undefined, outbox: [turnJob(job)] };
    }
    // The run's next driver settles the call, in its own commit.
    isUnderWay = true;
    return null;
  });
  return !isUnderWay;
}

async function settleUnderLock(context: Context, job: ToolCallJob, made: MadeAttempt): Promise<AttemptEnd> {
  const { call, attempt } = made.claim;
  let end: AttemptEnd = { kind: 'done' };
  const limitBytes = context.config.runOutputBytes;
  await appendToRun(context, job, async (run, tx) => {
    const now = await lockToolCall(tx, call.id);
    // Another attempt has taken over, or the call was settled.
    if (now?.attempt !== attempt) return null;
    if (now.status === 'unknown') return applyLateResult(tx, { run, call: now, limitBytes }, made);
    if (now.status !== 'running') return null;
    const room = { storedBytes: run.output_bytes, limitBytes };
    if (isTerminal(run.status)) {
      end = endOf(made);
      return settledForGood(made, room);
    }
    const next = toSettlement(job, { ...made, settlement: withinOutputLimit(made.settlement, room) });
    end = next.end;
    return next.change;
  });
  return end;
}

function toSettlement(job: ToolCallJob, made: MadeAttempt): { change: AppendedChange; end: AttemptEnd } {
  const { claim, settlement } = made;
  const { call, attempt } = claim;
  if (settlement.status === 'retry') {
    const { waitMs, question } = settlement;
    if (question !== undefined)
      return { change: askPerson(job, made, { ...settlement, question }), end: { kind: 'done' } };
    const calls = [giveUpAttempt(call, attempt, settlement)];
    return { change: { events: [], calls }, end: { kind: 'later', waitMs, attempt } };
  }
  const how = { callId: call.id, attempt, settlement, latencyMs: made.latencyMs };
  const events = [...made.facts, settledEvent(how)].map((fact) => callEvent(call, fact));
  const settled = { events, calls: [settlementChange(how)] };
  // A person may have to be asked, whatever else is at work.
  const next = settlement.status === 'unknown' ? { outbox: [turnJob(job)] } : { continuation: turnJob(job) };
  return { change: { ...settled, ...next }, end: endOf(made) };
}

/** Work elsewhere asks a question: a person answers it like one of the agent. It is not looked at before that. */
function askPerson(
  job: ToolCallJob,
  { claim: { call, attempt, questionSeconds: seconds } }: MadeAttempt,
  asked: Extract<Settlement, { status: 'retry' }> & { question: string },
): AppendedChange {
  const { question, remote } = asked;
  const payload = { tool_call_id: call.id, type: 'user' as const, question, timeout_seconds: seconds };
  const pause = { ...asked, remote: { ...remote, question }, waitMs: (seconds + GRACE_SECONDS) * 1000 };
  return {
    events: [callEvent(call, { type: 'input.requested', payload })],
    waits: [{ id: call.id, turn_id: call.turn_id, type: 'user', name: null, seconds }],
    calls: [giveUpAttempt(call, attempt, pause)],
    outbox: [turnJob(job)],
  };
}

/** Time for maintenance to end unanswered questions. */
const GRACE_SECONDS = 600;

/** The log of an ended run is closed; only the ledger is updated. */
function settledForGood({ claim, outcome, latencyMs }: MadeAttempt, room: OutputRoom): AppendedChange {
  const settlement: SettledAs = withinOutputLimit(
    settleForGood(outcome, { ...claim.call, attempt: claim.attempt }),
    room,
  );
  const how = { callId: claim.call.id, attempt: claim.attempt, settlement, latencyMs };
  return { events: [], calls: [settlementChange(how)] };
}
