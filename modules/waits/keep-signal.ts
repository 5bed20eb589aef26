/** A signal as it is taken in: once, and only as many as a run that has not used them can be loaded with. */
import { conflict } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { bytesOf } from '../../core/tool-output.ts';
import { insertSignal } from '../../db/approvals.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { readKeptSignalBytes } from '../../db/waits.ts';

/** Notes a signal of a run whose row is locked; false if one with this id has come before. 409 where the run has no room for it. */
export async function keepSignal(
  tx: Tx,
  run: RunRow,
  { id, type, payload }: { id: string; type: string; payload: unknown },
): Promise<boolean> {
  const inserting = insertSignal(tx, { tenantId: run.tenant_id, runId: run.id, id, type });
  const [isNew, kept] = await Promise.all([inserting, readKeptSignalBytes(tx, run.id)]);
  if (!isNew) return false;
  const bytes = bytesOf(payload ?? null);
  // The end of a time is nobody's to send again.
  if (type === 'timer' || kept + bytes <= LIMITS.keptSignalBytes) return true;
  throw conflict(
    `The run has not used yet ${kept} bytes of signals; with this one of ${bytes} bytes they would come to more than ${LIMITS.keptSignalBytes}.`,
  );
}
