/** Whether a process could do its work now: what `/readyz` says. */
import { DroverError } from '../../core/errors.ts';
import { isOutOfConnections } from '../../db/database-errors.ts';
import { pendingMigrations } from '../../db/migrate.ts';
import { RefusesWritesError } from '../../lib/refuses-writes-error.ts';
import type { ProcessContext } from '../process-context.ts';

const CHECK_MS = 2000;

/** `ok`, `away`, that it takes no writes or has no connection left, or what is missing; the migrations are unknown while the database is away. */
interface Checks {
  database: string;
  queue: string;
  migrations: string;
}

/** What a process says that could do its work. @throws DroverError, 503, which says what it lacks. */
export async function readinessOf(
  context: ProcessContext,
  isStopping: boolean,
): Promise<{ status: 'ready'; checks: Checks }> {
  const checks = await check(context);
  const faults = Object.entries(checks).filter(([, found]) => found !== 'ok');
  if (isStopping) faults.push(['process', 'stopping']);
  if (faults.length === 0) return { status: 'ready', checks };
  const detail = `Not ready: ${faults.map(([name, found]) => `${name} ${found}`).join(', ')}.`;
  throw new DroverError('not-ready', 503, detail, { retryAfterSeconds: 2, extra: { checks } });
}

/** Asks the database and the queue, and whether the migrations of this build were made. */
async function check({ db, queues }: ProcessContext): Promise<Checks> {
  const database = await stateOf(() => db.ping(CHECK_MS));
  const [queue, migrations] = await Promise.all([
    stateOf(() => queues.ping(CHECK_MS)),
    database === 'ok' ? stateOf(() => assertMigrated(db)) : 'unknown',
  ]);
  // The ping has had a connection of another pool, or the last one that there was.
  if (migrations === 'away' || migrations === NO_CONNECTION)
    return { database: migrations, queue, migrations: 'unknown' };
  return { database, queue, migrations };
}

const NO_CONNECTION = 'has no connection left';

async function stateOf(ask: () => Promise<unknown>): Promise<string> {
  try {
    await ask();
    return 'ok';
  } catch (error) {
    if (isOutOfConnections(error)) return NO_CONNECTION;
    return error instanceof PendingError || error instanceof RefusesWritesError ? error.message : 'away';
  }
}

class PendingError extends Error {}

async function assertMigrated(db: ProcessContext['db']): Promise<void> {
  const pending = await pendingMigrations(db);
  if (pending.length > 0) throw new PendingError(`pending: ${pending.join(', ')}`);
}
