/** Whether a process is ready to work: the answer of `/readyz`. */
import { DroverError } from '../../core/errors.ts';
import { isOutOfConnections } from '../../db/database-errors.ts';
import type { Tx } from '../../db/database.ts';
import { pendingMigrations } from '../../db/migrate.ts';
import { RefusesWritesError } from '../../lib/refuses-writes-error.ts';
import type { ProcessContext } from '../process-context.ts';

const CHECK_MS = 2000;

/**
 * `ok`, `away` (with a pooler: over which address, where the other one works), a lack (no writes, no free connection) or what is missing; `migrations` is unknown while the database
 * is away.
 */
interface Checks {
  database: string;
  queue: string;
  migrations: string;
}

/** The answer of a ready process. @throws DroverError, 503, with what it lacks. */
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

/**
 * Pings database and queue, and checks that this build's migrations have run: all at once, each for `CHECK_MS`. A busy
 * database that has no time to tell of its migrations has those with which the process has started.
 */
async function check({ config, db, queues }: ProcessContext): Promise<Checks> {
  const [database, queue, migrations] = await Promise.all([
    stateOf(() => db.ping(CHECK_MS)),
    stateOf(() => queues.ping(CHECK_MS)),
    stateOf(() => db.inspect(CHECK_MS, assertMigrated)),
  ]);
  // The ping goes over the pooler, where there is one, and the look at migrations past it.
  const over = (variable: string) => (config.databasePoolUrl === undefined ? AWAY : `${AWAY} (${variable})`);
  if (database === AWAY && migrations !== AWAY)
    return { database: over('DATABASE_POOL_URL'), queue, migrations: 'unknown' };
  if (database !== 'ok') return { database, queue, migrations: 'unknown' };
  // The ping used another pool's connection, or the last free one.
  if (migrations === AWAY) return { database: over('DATABASE_URL'), queue, migrations: 'unknown' };
  if (migrations === NO_CONNECTION) return { database: migrations, queue, migrations: 'unknown' };
  return { database, queue, migrations };
}

const AWAY = 'away';

const NO_CONNECTION = 'has no connection left';

async function stateOf(ask: () => Promise<unknown>): Promise<string> {
  try {
    await ask();
    return 'ok';
  } catch (error) {
    if (isOutOfConnections(error)) return NO_CONNECTION;
    return error instanceof PendingError || error instanceof RefusesWritesError ? error.message : AWAY;
  }
}

class PendingError extends Error {}

async function assertMigrated(tx: Tx): Promise<void> {
  const pending = await pendingMigrations(tx);
  if (pending.length > 0) throw new PendingError(`pending: ${pending.join(', ')}`);
}
