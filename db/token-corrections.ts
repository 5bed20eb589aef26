import type { Calibration } from '../core/calibration.ts';
import type { Tx } from './database.ts';

/** Corrections of token estimates by requests that were refused for their length, in order. */
export function listCorrections(tx: Tx, runId: string): Promise<{ step: number; calibration: Calibration }[]> {
  return tx.query(
    `select step, payload->'calibration' as calibration from run_events
     where run_id = $1 and type in ('model.retried', 'model.failed', 'model.responded') and payload->'calibration' is not null
     order by seq`,
    [runId],
  );
}
