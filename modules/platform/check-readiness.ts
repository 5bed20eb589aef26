/** Whether a process could do its work now: what `/readyz` says. */
import { pendingMigrations } from '../../db/migrate.ts';
import { RefusesWritesError } from '../../lib/refuses-writes-error.ts';
import type { ProcessContext } from '../process-context.ts';

const CHECK_MS = 2000;

/** `ok`, `away`, that it takes no writes, or what is missing; the migrations are unknown while the database is away. */
interface Readiness {
  database: string;
  queue: string;
  migrations: string;
}

/** Asks the database and the queue, and whether the migrations of this build were made. */
export async function checkReadiness({ db, queues }: ProcessContext): Promise<Readiness> {
  const database = await stateOf(() => db.ping(CHECK_MS));
  const [queue, migrations] = await Promise.all([
    stateOf(() => queues.ping(CHECK_MS)),
    database === 'ok' ? stateOf(() => assertMigrated(db)) : 'unknown',
  ]);
  return { database, queue, migrations };
}

async function stateOf(check: () => Promise<unknown>): Promise<string> {
  try {
    await check();
    return 'ok';
  } catch (error) {
    return error instanceof PendingError || error instanceof RefusesWritesError ? error.message : 'away';
  }
}

class PendingError extends Error {}

async function assertMigrated(db: ProcessContext['db']): Promise<void> {
  const pending = await pendingMigrations(db);
  if (pending.length > 0) throw new PendingError(`pending: ${pending.join(', ')}`);
}
