/**
 * Drives a run: load, decide, act, commit, until the run is dormant. One job, one claim, warm state. If the run is taken away
 * (by a cancel, a newer claim), the next commit fails, and the drive ends silently.
 */
import { decide, isNextTaken, type Decision } from '../../core/decide.ts';
import { completeCallBatch } from '../../core/decision-events/call-batches.ts';
import { awaitPeople, changeStatus } from '../../core/decision-events/turns.ts';
import { isTerminal, UnknownEventError } from '../../core/events.ts';
import { isDeadlyToLoad, LEASES_LOST } from '../../core/lost-leases.ts';
import { newId } from '../../lib/new-id.ts';
import { LIMITS } from '../../core/limits.ts';
import { linkSignals } from '../../lib/link-signals.ts';
import type { ClaimedRun, ClaimResult } from '../../db/claim-run.ts';
import { commitRun, NO_ROWS, outputBytesOf } from '../../db/commit-run.ts';
import type { DrivenFrom } from '../../jobs/slot-reservation.ts';
import { SUBTASKS } from '../../jobs/subtasks.ts';
import { TURNS, type TurnJob } from '../../jobs/turns.ts';
import { giveUpCalls, runCalls } from './driver/run-calls.ts';
import { TurnFailure } from './driver/ask-model.ts';
import { makeModelCall, orLater } from './driver/call-model.ts';
import { askInDoubt, failInDoubt } from './driver/in-doubt.ts';
import { reflect } from './driver/reflect.ts';
import { commit, isPark, type Park } from './driver/commit.ts';
import { roomOf } from './driver/commit-attempts.ts';
import type { Context } from '../governance/context.ts';
import { claimApart } from '../run-log/claim-suspect.ts';
import { LostRunError } from '../run-log/errors.ts';
import type { Held } from '../run-log/keep-lease.ts';
import { appendEvent, toCachedRun } from '../run-log/run-log.ts';
import { releaseReservation } from '../budgets/hold-to-budget.ts';
import { positionOf, type CachedRun } from '../run-log/run-cache.ts';
import { complete as completeNode, enter, waitingIn } from './driver/follow-graph.ts';
import { keepPartialAnswer } from './driver/partial-answer.ts';
import { failRun } from './end-run.ts';
import { holdRun } from './driver/hold-run.ts';
import { openDrive } from './driver/load.ts';
import { leaveDispatched } from './driver/dispatch-calls.ts';
import { leaveUnsent } from './driver/leave-unsent.ts';
import { sendCalls } from './driver/send-calls.ts';
import type { Drive } from './driver/drive-state.ts';
import { catchUp, isHeldUp } from './driver/suspension.ts';
import { completeOpenTurn, failOpenTurn, startTurn, takeMessages, takeNext } from './driver/turn.ts';
import { isLostHere, withinLimits } from './driver/within-limits.ts';
import { answerWith, openWaits } from '../waits/open-waits.ts';

/** Why a drive ended: nothing left to do, yielded to another job, taken away, or never claimed. */
export type DriveEnd = 'dormant' | 'yielded' | 'lost' | Exclude<ClaimResult, { ok: true }>['why'];

/** How the turn ended, or that the run waits; otherwise why the drive ended. */
type DriveOutcome = 'completed' | 'failed' | 'cancelled' | 'waiting' | Exclude<DriveEnd, 'dormant'>;

/** `stop` fires when the process must stop; `draining` asks to yield the run at the next step. */
interface DriveOptions {
  stop: AbortSignal;
  draining: () => boolean;
  /** Absent if the run must still be claimed. */
  from?: DrivenFrom | undefined;
}

/** Why the drive for a job ended, and what has become of its run. */
interface Driven {
  result: DriveEnd;
  outcome: DriveOutcome;
  /** The job's, else the run's; absent for a run that was not claimed and whose job has none. */
  traceparent?: string;
}

/** Drives a job's run for one slice at most. Infrastructure errors throw; outcomes of models and tools are data. */
export async function driveRun(context: Context, job: TurnJob, options: DriveOptions): Promise<Driven> {
  const { end, drive } = await claimAndDrive(context, job, options);
  const traceparent = drive?.traceparent ?? job.traceparent;
  return { result: end, outcome: outcomeOf(end, drive), ...(traceparent !== undefined && { traceparent }) };
}

function outcomeOf(end: DriveEnd, drive: Drive | undefined): DriveOutcome {
  if (end !== 'dormant') return end;
  return drive?.log.state.turn ? 'waiting' : (drive?.turnEnd ?? 'waiting');
}

async function claimAndDrive(
  context: Context,
  job: TurnJob,
  options: DriveOptions,
): Promise<{ end: DriveEnd; drive?: Drive }> {
  const { leaseMs } = context.config;
  const { from } = options;
  const sinceMs = from?.sinceMs ?? performance.now();
  const cached = context.runCache.take(job.runId);
  const { tenantId, runId, seq } = job;
  const of = { tenant_id: tenantId, run_id: runId, seq, leaseMs, known: cached && positionOf(cached) };
  const { claimed, leave } = from ? { ...from, leave: () => undefined } : await claimApart(context, of);
  if (!claimed.ok) return { end: claimed.why };
  try {
    return await driveClaimed(context, job, { ...options, claimed, cached, sinceMs, onProgress: leave });
  } finally {
    leave();
  }
}

/** A run that this process has just claimed. */
interface DriveClaimed extends DriveOptions {
  claimed: ClaimedRun;
  cached: CachedRun | undefined;
  /** When its lease was requested. */
  sinceMs: number;
  onProgress: () => void;
}

async function driveClaimed(
  context: Context,
  job: TurnJob,
  options: DriveClaimed,
): Promise<{ end: DriveEnd; drive?: Drive }> {
  const { from, claimed, cached, sinceMs, onProgress } = options;
  const { tenantId, runId } = job;
  const held = { tenantId, runId, fence: claimed.run.fence, sinceMs };
  if (claimed.run.kind === 'workflow') {
    await giveBack(context, held, { queue: SUBTASKS.name });
    return { end: 'yielded' };
  }
  if (isDeadlyToLoad(claimed.run)) {
    await failRun(context, job, LEASES_LOST);
    return { end: 'lost' };
  }
  let drive: Drive | undefined;
  const isCreated = () => !from?.initialCommit || drive?.uncommitted.initialCommit === null;
  const hold = holdRun(context, held, isCreated);
  const { signal, release } = linkSignals(hold.lost, options.stop);
  try {
    drive = await openDrive(context, claimed, {
      signal,
      stop: options.stop,
      traceparent: job.traceparent,
      cached,
      heard: hold.heard,
      holdsLease: hold.holdsLease,
      onProgress,
      initialCommit: from?.initialCommit,
    });
    const end = await loop(drive, options);
    if (end === 'dormant' || end === 'yielded') keepInCache(drive);
    return { end, drive };
  } catch (error) {
    // Before another driver can have the run: it would take them for lost.
    if (drive) await leaveUnsent(drive, error);
    if (error instanceof LostRunError || hold.lost.aborted) {
      if (drive) await keepPartialAnswer(drive);
      return { end: 'lost' };
    }
    // A newer build wrote something unknown here: the run does not fail, but waits for a process that can read it.
    const isNewer = error instanceof UnknownEventError;
    const again = options.stop.aborted || isNewer;
    await giveBack(context, held, again && (isNewer ? { delay_ms: NEWER_BUILD_MS } : {}));
    if (again) return { end: 'yielded' };
    throw error;
  } finally {
    if (drive) leaveDispatched(drive);
    release();
    hold.close();
  }
}

/** Caches the run's state, unless the run has ended, or answers from a record, which is not cached. */
function keepInCache(drive: Drive): void {
  const cached = drive.replaySource || isTerminal(drive.log.state.status) ? undefined : toCachedRun(drive.log);
  if (cached) drive.context.runCache.keep(drive.run.id, cached);
}

/** Delay before a run that only a newer build can read is tried again. */
const NEWER_BUILD_MS = 5000;

/** The queue in which the run continues, and the delay. */
type GivenOn = { queue?: string; delay_ms?: number };

/**
 * Releases the lease early for the next job; if even that fails, the lease runs out. A delayed job is left to the sweep: in
 * the queue each process ends delays by its own clock, and the process furthest ahead would take the run back each time.
 */
async function giveBack(context: Context, held: Held, again: false | GivenOn): Promise<void> {
  const { tenantId, runId, fence } = held;
  const job = { queue: TURNS.name, at_position: true as const, payload: { tenantId, runId } };
  const outbox = again ? [{ ...job, ...again, id: newId() }] : [];
  try {
    const result = await commitRun(context.db, {
      ...NO_ROWS,
      tenant_id: tenantId,
      run_id: runId,
      fence,
      events: [],
      release: true,
      outbox,
    });
    if (result.ok && again && again.delay_ms === undefined) void context.outbox.send(runId, result, outbox);
  } catch (error) {
    context.log.warn({ run: runId, fence, err: error }, 'lease not given back');
  }
}

async function loop(drive: Drive, options: DriveOptions): Promise<DriveEnd> {
  for (;;) {
    // Commits first what was paid for, even if the process is about to stop.
    if (drive.log.pending.events.length === 0) drive.signal.throwIfAborted();
    // Before the decision, since calls denied by the changes affect it.
    await catchUp(drive);
    const decision = decide(drive.log.state, drive.limits);
    if (mayYield(drive, decision) && mustYield(drive, options)) {
      if (await commit(drive, 'again')) return 'yielded';
      continue;
    }
    if (isHeldUp(drive, decision)) {
      if (await commit(drive, 'pause')) return 'dormant';
      continue;
    }
    const end = await carryOut(drive, withinLimits(drive, decision));
    if (end) return end;
  }
}

async function carryOut(drive: Drive, decision: Decision): Promise<DriveEnd | undefined> {
  const { log } = drive;
  switch (decision.kind) {
    case 'dormant':
      return (await commit(drive, 'dormant')) ? 'dormant' : undefined;
    case 'begin_turn':
      await startTurn(drive);
      return undefined;
    case 'take_queued':
      await takeNext(drive);
      return undefined;
    case 'call_model':
      appendEvent(log, ...completeCallBatch(log.state));
      takeMessages(drive);
      return askModel(drive, () => makeModelCall(drive, decision));
    case 'reflect':
      return askModel(drive, () => orLater(drive, () => reflect(drive, decision)));
    case 'enter_node':
      return inGraph(drive, () => enter(drive, decision.next));
    case 'complete_node':
      return inGraph(drive, () => completeNode(drive));
    case 'run_calls':
      if (!isLostHere(drive)) return later(drive, await runCalls(drive, decision.calls));
      await giveUpCalls(drive, decision.calls);
      return undefined;
    case 'await_calls':
      return sendCalls(drive, decision.asked);
    case 'ask_about':
      await askInDoubt(drive, decision.calls);
      return undefined;
    case 'open_waits':
      await openWaits(waitingIn(drive), decision.calls);
      return undefined;
    case 'use_signal':
      drive.outputBytes += outputBytesOf({ calls: [answerWith(log, decision, roomOf(drive))] });
      return undefined;
    case 'await_people':
      appendEvent(log, ...awaitPeople(log.state, decision.calls, waitingIn(drive).node?.name));
      return (await commit(drive, 'dormant')) ? 'dormant' : undefined;
    case 'resume':
      appendEvent(log, ...changeStatus(log.state, 'executing'));
      return undefined;
    case 'complete_turn':
      completeOpenTurn(drive, decision);
      return endTurn(drive);
    case 'fail_turn':
      failInDoubt(drive, decision.error);
      return endTurn(drive);
  }
}

/**
 * Commits the end of a turn. A waiting message begins the next turn in the same commit, and the drive goes on, unless the
 * conversation goes to another agent.
 */
async function endTurn(drive: Drive): Promise<DriveEnd | undefined> {
  const { log } = drive;
  if (!isNextTaken(log.state)) return (await commit(drive, 'dormant')) ? 'dormant' : undefined;
  await takeNext(drive);
  return undefined;
}

/** Runs `act`; a node that cannot be entered or completed fails the turn. */
async function inGraph(drive: Drive, act: () => Promise<void>): Promise<DriveEnd | undefined> {
  try {
    await act();
    return undefined;
  } catch (error) {
    if (!(error instanceof TurnFailure)) throw error;
    failInDoubt(drive, { code: error.code, message: error.message });
    return endTurn(drive);
  }
}

/** Asks a model, or puts the run off; fails the turn if the call cannot be made. */
async function askModel(drive: Drive, ask: () => ReturnType<typeof makeModelCall>): Promise<DriveEnd | undefined> {
  try {
    return await later(drive, await ask());
  } catch (error) {
    if (!(error instanceof TurnFailure)) throw error;
    releaseReservation(drive);
    failOpenTurn(drive, { code: error.code, message: error.message });
    return endTurn(drive);
  }
}

/** Puts the run off if there is something to wait for. */
async function later(drive: Drive, until: { afterMs: number } | Park | undefined): Promise<DriveEnd | undefined> {
  if (!until || !(await commit(drive, until))) return undefined;
  return isPark(until) ? 'dormant' : 'yielded';
}

/** Whether the drive may yield: before a turn or a model call, but not between the user's message and the event that counts it. */
function mayYield(drive: Drive, { kind }: Decision): boolean {
  const isBetween = kind === 'call_model' || kind === 'enter_node' || kind === 'reflect';
  return kind === 'begin_turn' || (isBetween && drive.log.pending.messages.length === 0);
}

function mustYield(drive: Drive, options: DriveOptions): boolean {
  return options.draining() || performance.now() - drive.sinceMs > LIMITS.sliceMs;
}
