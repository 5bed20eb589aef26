/** A slot of this process that is reserved for a turn before the turn is written, so that it need not go through the queue. */
import type { NewEvent } from '../core/events.ts';
import type { ClaimedRun } from '../db/claim-run.ts';
import type { CommitResult } from '../db/commit-run.ts';
import type { SubtaskJob } from './subtasks.ts';
import type { ToolCallJob } from './tool-calls.ts';
import type { TurnJob } from './turns.ts';

/**
 * Held until `leave` is called or the turn was driven. What `drive` throws leaves the turn to the queue; a crash leaves it to
 * reconciliation, as that of any driver.
 */
export interface SlotReservation {
  drive: (job: TurnJob, from?: DrivenFrom) => Promise<unknown>;
  leave: () => void;
}

/**
 * A slot for a tool call that the commit which asks for it claims. Held until `leave` is called or the call was made; one that
 * is to be made again goes to the queue.
 */
export interface CallSlot {
  make: (job: ToolCallJob, attempt: MakeCall) => void;
  leave: () => void;
}

/** Makes the attempt that is claimed; answers what came of it, when another one is due, and after how many. */
export type MakeCall = (
  stop: AbortSignal,
) => Promise<{ end: { kind: 'done' } | { kind: 'later'; waitMs: number; attempt?: number }; outcome: string }>;

/** Answers undefined if there is no room for a call of the tenant. */
export type ReserveCallSlot = (tenantId: string) => CallSlot | undefined;

/** Answers undefined if there is no room for a turn of the tenant. */
export type ReserveSlot = (tenantId: string) => SlotReservation | undefined;

/** Looks at a run that has children, in this process; undefined where it is about to stop. What it throws leaves the look to the queue. */
export type LookHere = (job: SubtaskJob) => Promise<unknown> | undefined;

/** A run that is held for its driver already. */
export interface DrivenFrom {
  claimed: ClaimedRun;
  /** When its lease was asked for, by the process's own clock (`performance.now`), where that was before the drive. */
  sinceMs?: number;
  /** The run is still to be created; `claimed` is how it will be then. */
  initialCommit?: InitialCommit | undefined;
}

/** A run that its first driver creates, with the commit that it would make first in any case. */
export interface InitialCommit {
  /** What creates the run and begins its turn. */
  events: NewEvent[];
  thread: Record<string, unknown> | undefined;
  /** The tenant's policy epoch under which the agent and its tools were read: created in that one, or not at all. */
  policyEpoch: number;
  /** Told once what the creating commit came to. */
  written: (result: CommitResult) => void;
}
