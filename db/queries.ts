import type { Knex } from 'knex';
import { withDeadline } from '../lib/deadline.ts';
import { RefusesWritesError } from '../lib/refuses-writes-error.ts';
import type { Database, NamedStatement } from './database.ts';
import { hasAnsweredSince, runStatement, sendStatement, wasFull, withConnection } from './knex-client.ts';
import { createStatementLine } from './statement-line.ts';
import { runOne, runTransaction } from './transaction.ts';

const BEGIN_SNAPSHOT = 'begin isolation level repeatable read, read only';

/** What is asked of either database in the same way, through a Knex for each role. */
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
        // Thrown here, so that it is asked on a new connection next time: that may come to another server.
        if (rows[0]?.read_only === 'on') throw new RefusesWritesError('read-only');
        if (wasFull(app)) throw new RefusesWritesError('disk full');
      });
      try {
        await withDeadline(answer, timeoutMs, `No answer from the database within ${timeoutMs} ms`);
      } catch (error) {
        // Where others keep all connections busy it waits for one of them, and the database is there.
        if (error instanceof RefusesWritesError || !hasAnsweredSince(app, sinceMs)) throw error;
      }
    },
  };
}

/** `on` for each transaction of a replica, and where the server, the database or the role says so. */
const READ_ONLY = "select current_setting('transaction_read_only') as read_only";
