import type { Database } from '../../db/database.ts';
import type { Context } from '../../modules/governance/context.ts';
import { createSharedReads } from '../../modules/run-log/shared-reads.ts';
import { createPositionWatch } from '../../modules/run-log/watch-positions.ts';

/** The context with another database, such as one that notes what it is asked; what reads for many at a time reads from it too. */
export function overDatabase(context: Context, db: Database): Context {
  return { ...context, db, reads: createSharedReads(db), positions: createPositionWatch({ ...context, db }) };
}
