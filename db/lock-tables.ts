/** Locks all tables for a migration before its first change. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Knex } from 'knex';
import { isStatementTimeout } from './database-errors.ts';

/** Below `deadlock_timeout` (1 s), so that in a deadlock the migration gives up, and not a request. */
const ATTEMPT_MS = 400;
const PAUSE_MS = 200;
/** Far longer than requests and commits take; whatever holds a table for longer is a dump or a forgotten session. */
const PATIENCE_MS = 300_000;

/** Tables that each request reads first. */
const FIRST = ['tenants', 'agents', 'tools', 'threads', 'runs'];

/**
 * Locks all tables at once, or releases them and retries after a pause. Requests of the previous release lock several tables
 * in their own order; if the migration kept some locks while waiting, a request could become the victim of a deadlock. Nobody
 * waits longer than one attempt. Throws if a table is held for minutes.
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
      // Limits the statement, that is, all locks together.
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
