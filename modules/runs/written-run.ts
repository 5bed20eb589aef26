/** A run written as part of a larger transaction, with its driver if the process has reserved a slot. */
import type { DrivenFrom, SlotReservation } from '../../jobs/slot-reservation.ts';
import type { TurnJob } from '../../jobs/turns.ts';
import type { Context } from '../governance/context.ts';
import { announceAppended, type Announcement } from '../run-log/append-to-run.ts';

/** A slot for a run about to be written, and its driver's lease. */
export interface HeldSlot {
  slot: SlotReservation;
  leaseMs: number;
  /** The policy epoch under which the run was prepared. */
  policyEpoch: number;
}

/** A written run, with its driver if it has one. */
export interface WrittenRun extends Announcement {
  driver?: { slot: SlotReservation; job: TurnJob; from: DrivenFrom };
}

/** After the commit: lets the reserved driver drive the run (otherwise its job does), and announces it. */
export function announceWritten(context: Context, { driver, ...written }: WrittenRun): void {
  // Failures are left to the queue.
  if (driver) void context.outbox.drive(driver.slot, driver.job, driver.from).catch(() => undefined);
  announceAppended(context, written);
}
