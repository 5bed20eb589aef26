/** All tables for a migration, before it changes the first one. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Knex } from 'knex';
import { isStatementTimeout } from './database-errors.ts';

/** Less than `deadlock_timeout` (1 s): where two would wait for each other it is the migration that gives up, and no request. */
const ATTEMPT_MS = 400;
const PAUSE_MS = 200;
/** Longer than a request or a commit takes by far; who holds a table for longer is a dump, or a session that somebody has forgotten. */
const PATIENCE_MS = 300_000;

/** Those that every request looks at first. */
const FIRST = ['tenants', 'agents', 'tools', 'threads', 'runs'];

/**
 * Locks them in one go, or lets all go again and waits a little: requests of the release before hold some of them and want
 * others, in an order of their own, and one that waited for a table which is locked while it holds the next one would be the
 * victim of a deadlock. Meanwhile nobody waits for longer than an attempt takes. Throws where somebody holds one for minutes.
 */
export async function lockAllTables(trx: Knex): Promise<void> {
  const { rows } = await trx.raw<{ rows: { name: string }[] }>(
    `select quote_ident(c.relname) as name from pg_class c
       where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
       order by array_position(?::text[], c.relname::text), c.relname`,
    [FIRST],
  );
  if (rows.length === 0) return;
  const tables = rows.map(({ name }) => `only ${name}`).join(', ');
  const [own] = (await trx.raw<{ rows: { limit: string }[] }>(`select current_setting('statement_timeout') as limit`))
    .rows;
  const endsAtMs = performance.now() + PATIENCE_MS;
  for (;;) {
    await trx.raw('savepoint lock_tables');
    try {
      // Of the statement and not of each lock: all of them together.
      await trx.raw(`set local statement_timeout = ${ATTEMPT_MS}`);
      await trx.raw(`lock table ${tables} in access exclusive mode`);
      await trx.raw(`select set_config('statement_timeout', ?, true)`, [own?.limit ?? '0']);
      await trx.raw('release savepoint lock_tables');
      return;
    } catch (error) {
      if (!isStatementTimeout(error)) throw error;
      await trx.raw('rollback to savepoint lock_tables');
      if (performance.now() > endsAtMs) {
        throw new Error(
          'The schema cannot be changed: a long transaction holds a table, a dump perhaps. Try again after it.',
          {
            cause: error,
          },
        );
      }
      await sleep(PAUSE_MS * (0.5 + Math.random()));
    }
  }
}
