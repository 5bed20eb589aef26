/** Shares a process's room between work from a queue and work dispatched locally. */
import type { HeldJob } from './handler.ts';
import { putBack } from './put-back.ts';

/** How long a job waits for a slot of this process, and then how long it is put back, in ms. */
const SLOT_WAIT_MS = 100;
const SLOT_PAUSE_MS = 100;

/** Does the work in a slot of the process, or puts the job back: another process may be free. */
export async function inProcessSlot<T>(held: HeldJob, work: () => Promise<T>): Promise<T> {
  const leave = await held.process?.enter(SLOT_WAIT_MS);
  if (held.process && !leave) return putBack(held, SLOT_PAUSE_MS);
  try {
    return await work();
  } finally {
    leave?.();
  }
}
