/** Creates the partitions of the days ahead. */
import { isLockTimeout } from './database-errors.ts';
import type { Database } from './database.ts';

/** Result of a round of creating partitions. */
interface PartitionsMade {
  made: number;
  /** Still missing since their table was in use: retried in the next round. */
  delayed: number;
  /** Number of rows outside of any day's partition. */
  astray: number;
}

/** Creates missing partitions of the days ahead, each in its own transaction, which locks for a second at most. */
export async function makePartitions(db: Database, daysAhead: number): Promise<PartitionsMade> {
  let made = 0;
  let missing = await missingPartitions(db, daysAhead);
  while (missing.length > 0) {
    for (const each of missing) {
      if (!(await attachPartition(db, each))) {
        return { made, delayed: (await missingPartitions(db, daysAhead)).length, astray: await countAstray(db) };
      }
      made += 1;
    }
    missing = await missingPartitions(db, daysAhead);
  }
  return { made, delayed: 0, astray: await countAstray(db) };
}

interface MissingPartition {
  parent: string;
  day: string;
}

function missingPartitions(db: Database, daysAhead: number): Promise<MissingPartition[]> {
  return db.asMaintenance((tx) => tx.query('select parent, day::text as day from missing_partitions($1)', [daysAhead]));
}

/** False if the table was in use for so long that others should not queue behind this lock. */
async function attachPartition(db: Database, { parent, day }: MissingPartition): Promise<boolean> {
  try {
    await db.asMaintenance((tx) => tx.query('select attach_partition($1, $2::date)', [parent, day]));
    return true;
  } catch (error) {
    if (isLockTimeout(error)) return false;
    throw error;
  }
}

async function countAstray(db: Database): Promise<number> {
  const [row] = await db.asMaintenance((tx) =>
    tx.query<{ astray: number }>('select rows_in_default_partitions() as astray'),
  );
  return row?.astray ?? 0;
}
