/** A run that was written in a transaction of more, and its driver where the process has held room for one. */
import type { DrivenFrom, SlotReservation } from '../../jobs/slot-reservation.ts';
import type { TurnJob } from '../../jobs/turns.ts';
import type { Context } from '../governance/context.ts';
import { announceAppended, type Announcement } from '../run-log/append-to-run.ts';

/** A slot for a run that is about to be written, and the lease that its driver gets. */
export interface HeldSlot {
  slot: SlotReservation;
  leaseMs: number;
  /** Of the governance under which it was prepared. */
  policyEpoch: number;
}

/** A run that was written, and its driver where it has one. */
export interface WrittenRun extends Announcement {
  driver?: { slot: SlotReservation; job: TurnJob; from: DrivenFrom };
}

/** After the commit: has the run driven by its driver or by whom its job comes to, and tells of it. */
export function announceWritten(context: Context, { driver, ...written }: WrittenRun): void {
  // What fails there is left to the queue.
  if (driver) void context.outbox.drive(driver.slot, driver.job, driver.from).catch(() => undefined);
  announceAppended(context, written);
}
