/** A driver's hold on one run: what is fixed, the run's log, and what dies with a step or with a commit. */
import type { RunLimits } from '../../../core/decide.ts';
import type { AgentDefinition } from '../../../core/definition.ts';
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

/** What stays the same from the start of a drive to its end. */
export interface DriveBasis {
  readonly context: Context;
  readonly tenantId: string;
  /** As it was claimed. */
  readonly run: RunRow;
  readonly fence: number;
  readonly definition: AgentDefinition;
  readonly tools: ReadonlyMap<string, ToolDefinition>;
  readonly limits: RunLimits;
  readonly traceparent: string | undefined;
  /** What a run that was forked from another may take from its record. */
  readonly replaySource: ReplaySource | null;
  /** Messages that were heard over the bus and not handled yet. */
  readonly heard: { governance: boolean };
  /** Whether the driver's lease surely lasts, by a clock that nobody sets. */
  readonly holdsLease: () => boolean;
  /** Fires when the run was cancelled, the lease was lost, or the process must stop. */
  readonly signal: AbortSignal;
  /** Fires when the process must stop, and for nothing else. */
  readonly stop: AbortSignal;
  /** When it began, by `performance.now()`. */
  readonly sinceMs: number;
}

/** One claim of a run: the work on it from there until the driver gives it up. */
export interface Drive extends DriveBasis {
  readonly log: RunLog;
  /** How the turn ended that the drive has come to the end of. */
  turnEnd?: 'completed' | 'failed';
  /** The tenant's policies and the like, as the pending calls were gated by them. */
  governance: Governance;
  /** A budget applied to the run when it was looked up last. */
  isBudgeted: boolean;
  step: Step;
  /** What the turn was given of its agent's memory. */
  memory?: TurnMemory | undefined;
  /** Bytes that the run's calls have stored, pending ones included: whoever else stores something makes the driver load again. */
  outputBytes: number;
  uncommitted: Uncommitted;
  /** Queued calls that this process makes and the driver waits for, while it does. */
  attached: AttachedCalls | null;
}

/** See await-attached.ts. */
export interface AttachedCalls {
  /** Which are under way. */
  readonly open: Set<string>;
  /** Commits what a call came to, with the run's next step; false once the driver has left the run, so that the call is settled by itself. */
  offer: (made: MadeAttempt) => Promise<boolean>;
  /** The attempt is over, whatever became of it. */
  ended: (callId: string) => void;
  /** The driver has left the run. */
  left: () => void;
}

/** What a model is told with the message at `ordinal`. */
export interface TurnMemory {
  turnId: string;
  ordinal: number;
  text: string | undefined;
  /** Those that it has words of. */
  ids: readonly string[];
}

/** What belongs to one model call and the tool calls of its answer: from the call's announcement to that of the next one. */
interface Step {
  /** What the model that is called next is given of the conversation. */
  announced: AnnouncedContext | null;
  /** What is set aside for the model call, until it is settled. */
  reservation: Reservation | null;
  /** What attempts of the call have spent that gave no answer. */
  inVain: Spent | null;
  /** How long the model's rate limiter backed off when the call was announced, until that was looked at. */
  backOff: { rateLimiter: string; waitMs: number } | null;
  /** Calls that this driver makes itself, as far as it has asked for them or looked at them. */
  ownCalls: Map<string, OwnCall>;
  /** Calls that the next commit claims for this process. */
  dispatched: Map<string, DispatchedCall>;
  /** In which policy epoch calls passed the gate; a call that a person let pass has none. */
  gatedAt: Map<string, number>;
  /** The ids of the answer's calls, in their order, as far as they were shown while it was written. */
  callIds: string[];
}

/** A call that the driver makes itself, as the ledger has it. */
interface OwnCall {
  row: LedgerCall;
  /** This driver began the attempt under way: any other call that is `running` was interrupted. */
  isBegun: boolean;
}

/** A call that a commit is to claim for this process. */
interface DispatchedCall {
  slot: CallSlot;
  row: LedgerCall;
  job: ToolCallJob & { claimId: string };
  /** When its lease was asked for, by the process's own clock (`performance.now`). */
  sinceMs: number;
}

/** What goes with the next commit, and is over once it is made. */
interface Uncommitted {
  /** Set while the run is still to be created, by the next commit. */
  initialCommit: InitialCommit | null;
  /** The answer that a model is writing, until the commit has it. */
  partial: PartialAnswer | null;
  /** Gates the pending calls again, by what the drive then has as its governance. */
  reauthorize: (() => Promise<void>) | null;
  /** Takes back what the user's newest message changes, once what others have appended meanwhile is known. */
  reconsider: (() => void) | null;
}

/** The answer that is being written; `text` is what has come of it so far. */
export interface PartialAnswer {
  model: string;
  step: number;
  text: string;
}

/** A step whose model call is announced, or is about to be. */
export function newStep(): Step {
  const calls = { ownCalls: new Map(), dispatched: new Map(), gatedAt: new Map(), callIds: [] };
  return { announced: null, reservation: null, inVain: null, backOff: null, ...calls };
}

/** A new set of uncommitted things: empty, or with the initial commit of the run. */
export function newUncommitted(initialCommit: InitialCommit | null = null): Uncommitted {
  return { initialCommit, partial: null, reauthorize: null, reconsider: null };
}

/** The run as the gate sees it. Its row is not copied: it has fifty columns, and the gate asks for each call. */
export function gatedRun(drive: Drive): Omit<GatedRun, 'usedUp'> {
  const { context, definition, tools, governance, log } = drive;
  const { id, agent_id, agent_version, thread_id, workspace_id, config } = drive.run;
  const run = { id, agent_id, agent_version, thread_id, workspace_id, config, turn_count: log.state.turnCount };
  return { context, run, definition, tools, governance };
}

/** The row of the run with the turn that its log is in. */
export function currentRun({ run, log }: Drive): RunRow {
  return { ...run, turn_count: log.state.turnCount };
}
