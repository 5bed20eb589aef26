/** A drive: what is constant, the run's log, and what lasts for one step or one commit. */
import type { RunLimits } from '../../../core/decide.ts';
import type { AgentDefinition } from '../../../core/definition.ts';
import type { TokenUsage } from '../../../core/model.ts';
import type { ToolDefinition } from '../../../core/tool.ts';
import type { Reservation, Spent } from '../../budgets/hold-to-budget.ts';
import type { RunRow } from '../../../db/claim-run.ts';
import type { LedgerCall } from '../../../db/commit-run.ts';
import type { CallSlot, InitialCommit } from '../../../jobs/slot-reservation.ts';
import type { ToolCallJob } from '../../../jobs/tool-calls.ts';
import type { Context } from '../../governance/context.ts';
import type { GatedRun } from '../../governance/gate-call.ts';
import type { Governance } from '../../governance/governance.ts';
import type { RunLog } from '../../run-log/run-log.ts';
import type { MadeAttempt } from '../../tool-calls/attempt.ts';
import type { AnnouncedContext } from './build-request.ts';
import type { ReplaySource } from './replay-source.ts';

/** Constant from the start of a drive to its end. */
export interface DriveBasis {
  readonly context: Context;
  readonly tenantId: string;
  /** As it was claimed. */
  readonly run: RunRow;
  readonly fence: number;
  readonly definition: AgentDefinition;
  readonly tools: ReadonlyMap<string, ToolDefinition>;
  readonly limits: RunLimits;
  /** Of the turn that was open when the run was claimed: as the log has it, else the job's, else the run's. */
  readonly traceparent: string | undefined;
  /** The record of a forked run's original, as far as it may be used. */
  readonly replaySource: ReplaySource | null;
  /** Bus messages received and not yet handled. */
  readonly heard: { governance: boolean };
  /** Whether the lease surely lasts, by the monotonic clock. */
  readonly holdsLease: () => boolean;
  /** Called after each commit that brings the run further (`areProgress`): it is no suspect any more. */
  readonly onProgress: () => void;
  /** Fires when the run was cancelled, the lease was lost, or the process must stop. */
  readonly signal: AbortSignal;
  /** Fires only when the process must stop. */
  readonly stop: AbortSignal;
  /** Start of the drive, by `performance.now()`. */
  readonly sinceMs: number;
}

/** The work on a run from one claim until the driver gives it up. */
export interface Drive extends DriveBasis {
  readonly log: RunLog;
  /** How the turn ended, once the drive has ended it. */
  turnEnd?: 'completed' | 'failed';
  /** The tenant's policies and suspensions under which the pending calls were gated. */
  governance: Governance;
  /** Whether a budget applied to the run at the last look. */
  isBudgeted: boolean;
  /** What the last call that no budget had room for lacked. */
  lack?: string | undefined;
  step: Step;
  /** The turn's memories of its agent. */
  memory?: TurnMemory | undefined;
  /** Bytes stored by the run's calls, pending ones included. If others store something, the driver reloads. */
  outputBytes: number;
  uncommitted: Uncommitted;
  /** Queued calls made by this process, while the driver waits for them. */
  attached: AttachedCalls | null;
}

/** See await-attached.ts. */
export interface AttachedCalls {
  /** Ids of calls under way. */
  readonly open: Set<string>;
  /** Commits a call's result with the run's next step; false once the driver has left the run, and the call is settled separately. */
  offer: (made: MadeAttempt) => Promise<boolean>;
  /** The attempt has ended, with whatever outcome. */
  ended: (callId: string) => void;
  /** The driver has left the run. */
  left: () => void;
}

/** Memories that a model is given with the message at `ordinal`. */
export interface TurnMemory {
  turnId: string;
  ordinal: number;
  text: string | undefined;
  /** Of the memories in `text`. */
  ids: readonly string[];
}

/** State of one model call and its answer's tool calls: from the call's announcement to the next one's. */
interface Step {
  /** The context fitted for the announced model call. */
  announced: AnnouncedContext | null;
  /** The model call's budget reservation, until it is settled. */
  reservation: Reservation | null;
  /** Spent by attempts of the call that gave no answer. */
  inVain: Spent | null;
  /** The rate limiter's back-off when the call was announced, until it is read. */
  backOff: { rateLimiter: string; waitMs: number } | null;
  /** The driver's own calls that it has requested or read. */
  ownCalls: Map<string, OwnCall>;
  /** Calls claimed for this process by the next commit. */
  dispatched: Map<string, DispatchedCall>;
  /** Policy epoch in which each call passed the gate; calls allowed by a person have none. */
  gatedAt: Map<string, number>;
  /** Ids of the answer's calls, in order, as far as they were shown while it was written. */
  callIds: string[];
}

/** One of the driver's own calls, as in the ledger. */
interface OwnCall {
  row: LedgerCall;
  /** Whether this driver began the current attempt: any other `running` call was interrupted. */
  isBegun: boolean;
  /** Whether it may have been handed to the tool. */
  isSent?: boolean;
  /** A suspension has put it off; the ledger may still have its attempt as claimed. */
  isPutOff?: boolean;
  /** Of the current attempt's claim, unless the commit that inserts the call makes it: others may have claimed the same attempt. */
  claimId?: string;
}

/** A call that a commit will claim for this process. */
interface DispatchedCall {
  slot: CallSlot;
  row: LedgerCall;
  job: ToolCallJob & { claimId: string };
  /** When its lease was requested, by the monotonic clock (`performance.now`). */
  sinceMs: number;
}

/** State that lasts until the next commit. */
interface Uncommitted {
  /** Set until the next commit creates the run. */
  initialCommit: InitialCommit | null;
  /** The answer being written, until it is committed. */
  partial: PartialAnswer | null;
  /** Gates the pending calls again, by the drive's new governance. */
  reauthorize: (() => Promise<void>) | null;
  /** Rewinds what the user's newest message makes obsolete, once the events of others are known. */
  reconsider: (() => void) | null;
  /** Takes back the failure of the turn, and what follows it, where the events of others leave no reason for it. */
  takeBack: (() => void) | null;
}

/** The answer being written; `text`: so far; `paid`: once the call is over; `isRecorded`: a pending event tells its failure. */
export interface PartialAnswer {
  model: string;
  turnId: string;
  step: number;
  text: string;
  paid?: Paid;
  isRecorded?: boolean;
}

/** Usage and cost of a call, as fields of its event; empty if nothing was paid. */
export type Paid = { provider: string; usage: TokenUsage; cost_usd: string | null } | Record<string, never>;

/** A step whose model call is, or is about to be, announced. */
export function newStep(): Step {
  const calls = { ownCalls: new Map(), dispatched: new Map(), gatedAt: new Map(), callIds: [] };
  return { announced: null, reservation: null, inVain: null, backOff: null, ...calls };
}

/** Empty state, or with the run's initial commit. */
export function newUncommitted(initialCommit: InitialCommit | null = null): Uncommitted {
  return { initialCommit, partial: null, reauthorize: null, reconsider: null, takeBack: null };
}

/** The run as the gate sees it. Its row is not copied: it has fifty columns, and this runs for each call. */
export function gatedRun(drive: Drive): Omit<GatedRun, 'usedUp'> {
  const { context, definition, tools, governance, log } = drive;
  const { id, agent_id, agent_version, thread_id, workspace_id, config } = drive.run;
  const run = { id, agent_id, agent_version, thread_id, workspace_id, config, turn_count: log.state.turnCount };
  return { context, run, definition, tools, governance };
}

/** The trace of the open turn. One that a queued message has begun in this drive is in the run's. */
export function traceOf({ log, run, traceparent }: Drive): string | undefined {
  const { turn } = log.state;
  if (!turn || turn.id === run.open_turn_id) return traceparent;
  return turn.traceparent ?? run.traceparent ?? undefined;
}

/** The run's row, with the log's turn count. */
export function currentRun({ run, log }: Drive): RunRow {
  return { ...run, turn_count: log.state.turnCount };
}
