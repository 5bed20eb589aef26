import type { Knex } from 'knex';
import { withDeadline } from '../lib/deadline.ts';
import { RefusesWritesError } from '../lib/refuses-writes-error.ts';
import type { Database, NamedStatement } from './database.ts';
import { isDatabaseAway } from './database-errors.ts';
import { hasAnsweredSince, isFull, runStatement, sendStatement, wasFull, withConnection } from './knex-client.ts';
import { createStatementLine } from './statement-line.ts';
import { runOne, runTransaction } from './transaction.ts';

const BEGIN_SNAPSHOT = 'begin isolation level repeatable read, read only';

/**
 * Queries that are the same for both databases, through a Knex for each role. `spare` acts as maintenance too, on connections
 * that wait for no lock of a table.
 */
export function queriesOf({
  app,
  maintenance,
  spare,
}: Record<'app' | 'maintenance' | 'spare', Knex>): Pick<
  Database,
  'withTenant' | 'withTenantSnapshot' | 'withTenantOnce' | 'asMaintenance' | 'call' | 'ping' | 'inspect'
> {
  const sendInLine = createStatementLine(app);
  const call: Database['call'] = async <R extends object>({ inLine, ...statement }: NamedStatement) => {
    const { rows } = await (inLine ? sendInLine<R>(statement) : runStatement<R>(app, statement));
    return rows;
  };
  return {
    withTenant: (tenantId, work) => runTransaction(app, { tenantId }, work),
    withTenantSnapshot: (tenantId, work) => runTransaction(app, { tenantId, begin: BEGIN_SNAPSHOT }, work),
    withTenantOnce: (tenantId, work) => runOne(app, tenantId, work),
    asMaintenance: (work) => runTransaction(maintenance, {}, work),
    call,
    ping: (timeoutMs) =>
      askInTime({ own: app, spare }, timeoutMs, (knex) =>
        withConnection(knex, async (connection) => {
          const { rows } = await sendStatement<{ read_only: string }>(knex, connection, { text: READ_ONLY });
          // Thrown here, so that the next attempt uses a new connection, which may lead to another server.
          if (rows[0]?.read_only === 'on') throw new RefusesWritesError('read-only');
          if (wasFull(app)) throw new RefusesWritesError('disk full');
        }),
      ),
    inspect: (timeoutMs, work) =>
      askInTime({ own: maintenance, spare }, timeoutMs, (knex) => runTransaction(knex, {}, work)),
  };
}

/**
 * Asks over the pool's own connections; where all of them are in use, over a spare one, since those who have them may all
 * wait for the same lock. Throws what `ask` finds, or that there is no answer.
 */
async function askInTime(
  { own, spare }: Record<'own' | 'spare', Knex>,
  timeoutMs: number,
  ask: (knex: Knex) => Promise<void>,
): Promise<void> {
  const sinceMs = performance.now();
  const askOwn = (error: unknown) => {
    if (isFinding(error)) throw error;
    return ask(own);
  };
  const answer = isFull(own) ? ask(spare).catch(askOwn) : ask(own);
  try {
    await withDeadline(answer, timeoutMs, `No answer from the database within ${timeoutMs} ms`);
  } catch (error) {
    // The pool is busy with others, whose statements are answered: the database is available.
    if (isFinding(error) || !hasAnsweredSince(own, sinceMs)) throw error;
  }
}

/** Whether the database has answered, with this. */
function isFinding(error: unknown): boolean {
  return error instanceof RefusesWritesError || !isDatabaseAway(error);
}

/** `on` on replicas, and if server, database or role are set to read-only. */
const READ_ONLY = "select current_setting('transaction_read_only') as read_only";
