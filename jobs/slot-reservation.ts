/** Reserves a slot of this process for a turn before the turn is written, so that it can skip the queue. */
import type { NewEvent } from '../core/events.ts';
import type { ClaimedRun } from '../db/claim-run.ts';
import type { CommitResult } from '../db/commit-run.ts';
import type { SubtaskJob } from './subtasks.ts';
import type { ToolCallJob } from './tool-calls.ts';
import type { TurnJob } from './turns.ts';

/**
 * Held until `leave` is called or the turn was driven. If `drive` throws, the turn goes to the queue; after a crash,
 * reconciliation finds it, as with any driver.
 */
export interface SlotReservation {
  drive: (job: TurnJob, from?: DrivenFrom) => Promise<unknown>;
  leave: () => void;
}

/**
 * A slot for a tool call, which the commit that requests the call also claims. Held until `leave` is called or the call
 * was made; a retry goes to the queue.
 */
export interface CallSlot {
  make: (job: ToolCallJob, attempt: MakeCall) => void;
  leave: () => void;
}

/** Makes the claimed attempt; returns its outcome, and, for a retry, its delay and the number of attempts so far. */
export type MakeCall = (
  stop: AbortSignal,
) => Promise<{ end: { kind: 'done' } | { kind: 'later'; waitMs: number; attempt?: number }; outcome: string }>;

/** Returns undefined if there is no room for a call of the tenant. */
export type ReserveCallSlot = (tenantId: string) => CallSlot | undefined;

/** Returns undefined if there is no room for a turn of the tenant. */
export type ReserveSlot = (tenantId: string) => SlotReservation | undefined;

/** Looks at a parent in this process; undefined if the process is about to stop. If it rejects, the look goes to the queue. */
export type LookHere = (job: SubtaskJob) => Promise<unknown> | undefined;

/** A run that is already claimed for its driver. */
export interface DrivenFrom {
  claimed: ClaimedRun;
  /** When its lease was requested, by `performance.now`, if that was before the drive. */
  sinceMs?: number;
  /** Set if the run does not exist yet; `claimed` is its state once created. */
  initialCommit?: InitialCommit | undefined;
}

/** A run that its first driver creates, in the commit that it makes first anyway. */
export interface InitialCommit {
  /** The events that create the run and begin its turn. */
  events: NewEvent[];
  thread: Record<string, unknown> | undefined;
  /** The tenant's policy epoch when the agent and its tools were read: the run is created in that epoch or not at all. */
  policyEpoch: number;
  /** Called once with the result of the creating commit. */
  written: (result: CommitResult) => void;
  /** Called if the answer to that commit is lost, before what it may have begun is given back. */
  failed: (error: unknown) => void;
}
