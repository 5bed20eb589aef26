import type { Knex } from 'knex';
import { withDeadline } from '../lib/deadline.ts';
import { RefusesWritesError } from '../lib/refuses-writes-error.ts';
import type { Database, NamedStatement } from './database.ts';
import { hasAnsweredSince, runStatement, sendStatement, wasFull, withConnection } from './knex-client.ts';
import { createStatementLine } from './statement-line.ts';
import { runOne, runTransaction } from './transaction.ts';

const BEGIN_SNAPSHOT = 'begin isolation level repeatable read, read only';

/** Queries that are the same for both databases, through a Knex for each role. */
export function queriesOf({
  app,
  maintenance,
}: Record<'app' | 'maintenance', Knex>): Pick<
  Database,
  'withTenant' | 'withTenantSnapshot' | 'withTenantOnce' | 'asMaintenance' | 'call' | 'ping'
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
    async ping(timeoutMs) {
      const sinceMs = performance.now();
      const answer = withConnection(app, async (connection) => {
        const { rows } = await sendStatement<{ read_only: string }>(app, connection, { text: READ_ONLY });
        // Thrown here, so that the next attempt uses a new connection, which may lead to another server.
        if (rows[0]?.read_only === 'on') throw new RefusesWritesError('read-only');
        if (wasFull(app)) throw new RefusesWritesError('disk full');
      });
      try {
        await withDeadline(answer, timeoutMs, `No answer from the database within ${timeoutMs} ms`);
      } catch (error) {
        // The pool is busy with others, whose statements are answered: the database is available.
        if (error instanceof RefusesWritesError || !hasAnsweredSince(app, sinceMs)) throw error;
      }
    },
  };
}

/** `on` on replicas, and if server, database or role are set to read-only. */
const READ_ONLY = "select current_setting('transaction_read_only') as read_only";
