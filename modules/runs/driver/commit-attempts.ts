/** Commits the attempts of the driver's own calls along with the steps of its run; the first attempt with the call's request. */
import { approvalSeconds } from '../../../core/definition.ts';
import { beginAttempt, settleCall, type SettledAs } from '../../../core/decision-events/tool-calls.ts';
import { attemptError, interruptedAttempt, settleForGood, type Settlement } from '../../../core/ledger.ts';
import { LIMITS } from '../../../core/limits.ts';
import { LEASES_LOST } from '../../../core/lost-leases.ts';
import { newId } from '../../../lib/new-id.ts';
import type { CallState, CallStatus } from '../../../core/state.ts';
import { outputBytesOf, type LedgerCall } from '../../../db/commit-run.ts';
import { findPausedCall, findToolCall, type ToolCallRow } from '../../../db/tool-calls.ts';
import type { AppendedChange } from '../../run-log/append-to-run.ts';
import { appendEvent, changeCall } from '../../run-log/run-log.ts';
import { retryWhileUnavailable } from '../../run-log/retry-while-unavailable.ts';
import { settlementChange, withinOutputLimit, type OutputRoom } from '../../run-log/settlement.ts';
import type { FileFact } from '../../files/result-files.ts';
import {
  authorize,
  interruptionOf,
  type AttemptEnd,
  type Authorization,
  type ClaimedCall,
  type Committer,
  type HeldClaim,
  type MadeAttempt,
} from '../../tool-calls/attempt.ts';
import { recheckClaim } from '../../tool-calls/recheck-claim.ts';
import { giveUpAttempt } from '../../tool-calls/tool-call-events.ts';
import { keepLost, outliveLease } from './lost-attempts.ts';
import { announceNext } from './announce.ts';
import { commit } from './commit.ts';
import { retryWindowOf } from './commit-once.ts';
import { saveCheckpointIfDue } from './save-checkpoint.ts';
import { currentRun, type Drive } from './drive-state.ts';

/** Runs a call's commit after those of the step's other calls. */
export type InTurn = (work: () => Promise<void>) => Promise<void>;

/** Serializes the commits of calls that end at the same time. */
export function serialize(): InTurn {
  let last: Promise<void> = Promise.resolve();
  return (work) => {
    const next = last.then(work);
    last = next.catch(() => undefined);
    return next;
  };
}

/** The attempts of one call. */
interface Attempts {
  drive: Drive;
  call: CallState;
  inTurn: InTurn;
  /** Number of the last attempt, or of the one under way when its driver died. */
  attempt: number;
}

const DONE: AttemptEnd = { kind: 'done' };

/** The committer of a driver, for all attempts of one call. */
export function commitWithSteps(drive: Drive, call: CallState, inTurn: InTurn): Committer {
  const attempts: Attempts = { drive, call, inTurn, attempt: call.attempt };
  return {
    claim: () => claim(attempts),
    hold: (claimed) => hold(attempts, claimed),
    settle(made) {
      // Read now: with the announcement of the next model call a new step begins.
      const claimId = drive.step.ownCalls.get(call.id)?.claimId;
      return keepLost(drive, { made, claimId }, () => settle(attempts, made));
    },
  };
}

function hold({ drive, call }: Attempts, claimed: ClaimedCall): HeldClaim {
  markSent(drive, call, true);
  // A pure call is harmless even after the run is lost, and its result counts only if the current driver commits it.
  const maySend = () => call.mode === 'pure' || drive.holdsLease();
  return { maySend, ...outliveLease(drive, claimed) };
}

function markSent({ step }: Drive, { id }: CallState, isSent: boolean): void {
  const own = step.ownCalls.get(id);
  if (own) step.ownCalls.set(id, { ...own, isSent });
}

/** The first attempt was claimed with the call's request; later ones are claimed here. Pure calls are claimed once only. */
async function claim(attempts: Attempts): Promise<ClaimedCall | AttemptEnd> {
  const { drive, call } = attempts;
  const own = drive.step.ownCalls.get(call.id);
  const isLeft = call.mode === 'inline' && !own?.isBegun;
  if (isLeft || call.status === 'pending') return claimAnother(attempts);
  return toClaim(attempts, own?.row ?? (await readRow(drive, call.id)));
}

/**
 * Each attempt is a new call to the tool, and policies and suspensions may have changed: it is checked again, and not made if
 * refused, before people have approved it, or while the run is suspended.
 */
async function claimAnother(attempts: Attempts): Promise<ClaimedCall | AttemptEnd> {
  const { drive, call, inTurn } = attempts;
  for (let isBegun = false; ;) {
    const { row, pauseMs, wasUnderWay, authorization, stopped } = await lookAgain(attempts);
    if (pauseMs > 0) return { kind: 'later', waitMs: pauseMs };
    const lost = wasUnderWay ? interruptionOf(toClaim(attempts, row)) : undefined;
    if (lost) {
      await inTurn(() => finish(drive, { call, attempt: attempts.attempt, settlement: lost, latencyMs: 0 }));
      return DONE;
    }
    const { governance, isSuspended } = authorization;
    drive.governance = governance;
    if (isSuspended) {
      await inTurn(() => putOff(drive, row));
      return DONE;
    }
    if (stopped) {
      await inTurn(() => leave(attempts, stopped));
      return DONE;
    }
    if (!isBegun) {
      attempts.attempt += 1;
      await inTurn(() => begin(attempts, row));
    }
    isBegun = true;
    // The commit may have found a newer policy epoch than the one checked: it must be checked before anything is sent.
    if (drive.governance.epoch === governance.epoch) return toClaim(attempts, row);
  }
}

interface Looked {
  row: LedgerCall;
  /** The rest of the pause that another driver has left. */
  pauseMs: number;
  /** Whether the attempt was under way when its driver died. */
  wasUnderWay: boolean;
  authorization: Authorization;
  /** The change for a call that may not be made now. */
  stopped: AppendedChange | undefined;
}

async function lookAgain({ drive, call, attempt }: Attempts): Promise<Looked> {
  const { context, tenantId, definition, tools } = drive;
  const run = currentRun(drive);
  const own = drive.step.ownCalls.get(call.id);
  return context.db.withTenant(tenantId, async (tx) => {
    const stored = own ? undefined : await findPausedCall(tx, call.id);
    const row = own?.row ?? found(stored, call.id);
    const pinned = { definition, tools };
    const authorization = await authorize(context, tx, { run, pinned, call: row });
    // `pending` in the ledger: a person wants the call made again, or it was put off, or pauses.
    const wasUnderWay = call.status === 'running' && stored?.status === 'running';
    const lost = wasUnderWay && { error: interruptedAttempt(stored) };
    const next = { ...row, ...lost };
    const stopped = await recheckClaim(tx, { run, call: { ...next, attempt, status: 'pending' } }, authorization);
    return { row: next, pauseMs: stored?.retry_in_ms ?? 0, wasUnderWay, authorization, stopped };
  });
}

async function readRow({ context, tenantId }: Drive, id: string): Promise<ToolCallRow> {
  return found(await context.db.withTenant(tenantId, (tx) => findToolCall(tx, id)), id);
}

function found(row: ToolCallRow | undefined, id: string): ToolCallRow {
  if (!row) throw new Error(`the ledger has no call ${id}`);
  return row;
}

/** The call's attempt under way. */
export function toClaim(
  { drive, call, attempt }: Pick<Attempts, 'drive' | 'call' | 'attempt'>,
  row: LedgerCall,
): ClaimedCall {
  const tool = drive.tools.get(call.name);
  if (!tool) throw new Error(`the run pins no tool ${call.name}`);
  const retry = call.mode === 'pure' ? { max_retries: 0, backoff_ms: 0 } : tool.execution.retry_config;
  const { agent_id: agentId } = drive.run;
  const acceptsDuplicates = drive.limits.onUnknown === 'retry';
  const questionSeconds = approvalSeconds(drive.definition);
  const longestPauseMs = LIMITS.inlinePauseMs;
  return { call: row, attempt, agentId, tool, retry, acceptsDuplicates, questionSeconds, longestPauseMs };
}

/** Puts off a call of a suspended run: nothing of it is under way, and the driver after the suspension makes the next attempt. */
async function putOff(drive: Drive, row: LedgerCall): Promise<void> {
  drive.step.ownCalls.set(row.id, { ...drive.step.ownCalls.get(row.id), row, isBegun: false, isPutOff: true });
  changeCall(drive.log, { id: row.id, from: ['pending', 'running'], set: { status: 'pending', ...errorOf(row) } });
}

/** The error of the previous attempt. */
function errorOf({ error }: LedgerCall): Pick<LedgerCall, 'error'> {
  return error ? { error } : {};
}

async function begin({ drive, attempt }: Attempts, row: LedgerCall): Promise<void> {
  const claimId = newId();
  appendEvent(drive.log, beginAttempt(drive.log.state, row.id, attempt));
  changeCall(drive.log, {
    id: row.id,
    from: ['pending', 'running'],
    set: { status: 'running', attempt, ...errorOf(row) },
    claim_id: claimId,
  });
  drive.step.ownCalls.set(row.id, { row, isBegun: true, claimId });
  await commit(drive);
}

async function settle(attempts: Attempts, made: MadeAttempt): Promise<AttemptEnd> {
  const { drive, call, inTurn, attempt } = attempts;
  const { claim: claimed, outcome, settlement, latencyMs, facts } = made;
  // If the drive is stopped from outside, the call is left to the next driver; a result already there is kept.
  if (outcome.kind === 'aborted') {
    if (outcome.sent === false) markSent(drive, call, false);
    drive.signal.throwIfAborted();
  }
  drive.context.metrics.stepSeconds.observe({ kind: 'tool' }, latencyMs / 1000);
  if (settlement.status === 'retry' && settlement.question === undefined) {
    await inTurn(() => pause(attempts, claimed.call, settlement));
    return { kind: 'later', waitMs: settlement.waitMs };
  }
  // The driver cannot ask a person while it holds the run: a call that needs an answer has failed.
  const ended: SettledAs = settlement.status === 'retry' ? { ...settlement, status: 'failed' } : settlement;
  await inTurn(() => finish(drive, { call, attempt, settlement: ended, latencyMs, facts }));
  return DONE;
}

/**
 * Commits that nothing is under way before the next attempt: whoever ends the run, or drives it on, need not take this one for
 * lost. The change has no event by which its commit could be found in the log, and is harmless twice.
 */
async function pause(
  { drive, attempt }: Attempts,
  call: LedgerCall,
  why: Extract<Settlement, { status: 'retry' }>,
): Promise<void> {
  drive.step.ownCalls.set(call.id, { row: { ...call, error: attemptError(why) }, isBegun: false });
  changeCall(drive.log, { ...giveUpAttempt(call, attempt, why), from: ['pending', 'running'] });
  await retryWhileUnavailable(() => commit(drive), retryWindowOf(drive));
}

interface Finished {
  call: Pick<CallState, 'id' | 'mode'>;
  attempt: number;
  settlement: SettledAs;
  latencyMs: number;
  /** About parts of the result that became files. */
  facts?: readonly FileFact[];
}

/** Bytes stored by the run's calls, including those of the next commit, and their limit. */
export function roomOf({ outputBytes, context }: Drive): OutputRoom {
  return { storedBytes: outputBytes, limitBytes: context.config.runOutputBytes };
}

/** Records that a call which drivers have died of gets no further attempt; the next commit says so. */
export async function endUnmade(drive: Drive, call: CallState): Promise<void> {
  const row = await readRow(drive, call.id);
  // An attempt that is under way may have had its effect.
  const kind = row.status === 'running' ? 'lost' : 'unreached';
  const settlement = settleForGood({ kind, ...LEASES_LOST }, row);
  record(drive, { call, attempt: row.attempt, settlement, latencyMs: 0 }, ['pending', 'running']);
}

/**
 * Records how a call ended and commits it, along with the announcement of the next model call after the last one of the step.
 * A pure call's result waits for the next commit.
 */
export async function finish(drive: Drive, finished: Finished): Promise<void> {
  record(drive, finished);
  if (finished.call.mode !== 'pure') await commitEnd(drive);
}

function record(
  drive: Drive,
  { call, attempt, latencyMs, facts = [], ...finished }: Finished,
  from: CallStatus[] = ['running'],
): void {
  const settlement = withinOutputLimit(finished.settlement, roomOf(drive));
  const settled = { callId: call.id, attempt, settlement, latencyMs };
  const change = settlementChange(settled);
  drive.outputBytes += outputBytesOf({ calls: [change] });
  const event = settleCall(drive.log.state, settled, 'worker');
  const { actor, turn_id, step } = event;
  appendEvent(drive.log, ...facts.map((fact) => ({ ...fact, actor, turn_id, step })), event);
  changeCall(drive.log, { ...change, from });
}

async function commitEnd(drive: Drive): Promise<void> {
  saveCheckpointIfDue(drive);
  announceNext(drive);
  await commit(drive);
}

/** Commits that a call is refused, or waits for people. What they make of it is read from the ledger. */
async function leave({ drive, call }: Attempts, { events, calls = [] }: AppendedChange): Promise<void> {
  drive.step.ownCalls.delete(call.id);
  appendEvent(drive.log, ...events);
  // A call that was put off, or is to be retried, has no attempt under way.
  for (const change of calls) changeCall(drive.log, { ...change, from: ['pending', 'running'] });
  await commitEnd(drive);
}
