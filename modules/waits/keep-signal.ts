/** Accepts a signal once, and only as many unused ones as a run can be loaded with. */
import { conflict, impossible } from '../../core/errors.ts';
import { isTerminal } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import { bytesOf } from '../../core/tool-output.ts';
import { insertSignal, type NewSignal, readKeptSignalBytes } from '../../db/signals.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';

/** Stores a signal; false if it is a repetition. Throws 422 if another signal has used its id. */
export async function noteSignal(tx: Tx, signal: NewSignal): Promise<boolean> {
  const noted = await insertSignal(tx, signal);
  if (noted === 'other')
    throw impossible('Another signal of this run has this id: each signal needs an id of its own.');
  return noted;
}

/** Notes a signal of a run whose row is locked; false if it has come before. 409 where the run has ended, or has no room for it. */
export async function keepSignal(
  tx: Tx,
  run: RunRow,
  { id, type, payload, digest }: Pick<NewSignal, 'id' | 'type' | 'digest'> & { payload: unknown },
): Promise<boolean> {
  const inserting = noteSignal(tx, { tenantId: run.tenant_id, runId: run.id, id, type, digest });
  const [isNew, kept] = await Promise.all([inserting, readKeptSignalBytes(tx, run.id)]);
  if (!isNew) return false;
  if (isTerminal(run.status)) throw conflict(`The run is ${run.status}; it takes no more signals.`);
  const bytes = bytesOf(payload ?? null);
  // Nobody could send the end of a timer again.
  if (type === 'timer' || kept + bytes <= LIMITS.keptSignalBytes) return true;
  throw conflict(
    `The run has not used yet ${kept} bytes of signals; with this one of ${bytes} bytes they would come to more than ${LIMITS.keptSignalBytes}.`,
  );
}
