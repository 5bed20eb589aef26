/** The database's clock: the one that all processes share. */
import type { Database } from './database.ts';

export async function readClock(db: Database): Promise<Date> {
  const rows = await db.call<{ now: Date }>({ name: 'clock', text: 'select clock_timestamp() as now', values: [] });
  const [row] = rows;
  if (!row) throw new Error('the database told no time');
  return row.now;
}
