/** Database time, shared by all processes. */
import type { Database, Tx } from './database.ts';

const NOW = 'select clock_timestamp() as now';

export async function readClock(db: Database): Promise<Date> {
  return timeIn(await db.call<{ now: Date }>({ name: 'clock', text: NOW, values: [] }));
}

/** The same within a transaction. */
export async function readClockIn(tx: Tx): Promise<Date> {
  return timeIn(await tx.query<{ now: Date }>(NOW));
}

function timeIn([row]: { now: Date }[]): Date {
  if (!row) throw new Error('the database told no time');
  return row.now;
}
