/** The line of a job that has failed. */
import type { Logger } from 'pino';
import { unreachedBy } from '../db/database-errors.ts';
import { onceIn } from '../lib/once-in.ts';
import { DamagedJobError } from './put-back.ts';

/** While there is no way to the database, every job fails, and those of runs are sent again and again. */
const tellsUnreached = onceIn(30_000);

export function tellFailure(log: Logger, error: unknown, about: object): void {
  if (error instanceof DamagedJobError) {
    log.warn(about, error.message);
    return;
  }
  const variable = unreachedBy(error);
  log[variable === undefined ? 'error' : 'debug']({ ...about, err: error }, 'job');
  if (variable === undefined || !tellsUnreached(log)) return;
  log.warn({ ...about, err: error }, `nothing answers at the address of ${variable}; work waits for the database`);
}
