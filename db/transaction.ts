import type { Knex } from 'knex';
import type { QueryResult } from 'pg';
import type { Tx } from './database.ts';
import { holdWrites, sendStatement, withConnection } from './knex-client.ts';

const SET_TENANT = "select set_config('drover.tenant_id', $1, true)";

/**
 * For a single statement that selects rows by id: one generic plan fits all values. Otherwise Postgres plans it each time,
 * which takes milliseconds for twenty partitions, since its first plans were made for smaller tables.
 */
const SET_TENANT_AND_PLAN =
  "select set_config('drover.tenant_id', $1, true), set_config('plan_cache_mode', 'force_generic_plan', true)";

/**
 * Runs `work` between BEGIN and COMMIT on a connection used by nobody else. BEGIN and the tenant's setting are sent without
 * waiting for answers: in pipeline mode they share a round trip with the first query. If one fails, the transaction is aborted
 * or has no tenant, and shows no rows.
 * Any failed statement rolls back everything and rejects, even if `work` caught the error: to the COMMIT of an aborted
 * transaction, Postgres answers ROLLBACK without an error.
 * Knex's own `transaction` waits for the answer to BEGIN, and creates a Knex with all functions for each transaction: a
 * transaction of one query cost node 400 us that way, instead of 190 us.
 */
export async function runTransaction<T>(
  knex: Knex,
  { tenantId, begin = 'begin' }: { tenantId?: string; begin?: string },
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  return withConnection(knex, async (connection) => {
    const state = { open: true, firstError: undefined as unknown };
    let ended: Promise<void> | undefined;
    const send = (text: string, values?: readonly unknown[]): Promise<QueryResult> => {
      const sent = sendStatement(knex, connection, { text, ...(values && { values }) });
      sent.catch((error: unknown) => {
        state.firstError ??= error;
      });
      return sent;
    };
    const sendHeld = holdWrites(connection);
    void send(begin);
    if (tenantId !== undefined) void send(SET_TENANT, [tenantId]);
    const commit = async (): Promise<void> => {
      state.open = false;
      const { command } = await send('commit');
      if (command !== 'COMMIT') throw state.firstError ?? new Error('The database rolled the transaction back.');
    };
    const expectOpen = () => {
      if (!state.open) throw new Error('The transaction has ended: a query came after its work was done.');
    };
    const tx: Tx = {
      async query<R extends object>(text: string, values?: readonly unknown[]): Promise<R[]> {
        expectOpen();
        const result: QueryResult = await send(text, values);
        return result.rows;
      },
      async last<R extends object>(text: string, values?: readonly unknown[]): Promise<R[]> {
        expectOpen();
        const sendBoth = holdWrites(connection);
        const sent = send(text, values);
        ended = commit();
        sendBoth();
        const failed = (error: unknown) => {
          throw state.firstError ?? error;
        };
        const [{ rows }] = await Promise.all([sent, ended]).catch(failed);
        return rows as R[];
      },
    };
    try {
      const value = await startHeld(() => work(tx), sendHeld);
      await (ended ?? commit());
      return value;
    } catch (error) {
      state.open = false;
      // Without a connection there is nothing to roll back, and the pool drops the client.
      await send('rollback').catch(() => undefined);
      throw error;
    }
  });
}

/** Combines everything sent before the first await into one write. */
function startHeld<T>(work: () => Promise<T>, sendHeld: () => void): Promise<T> {
  try {
    return work();
  } finally {
    sendHeld();
  }
}

/**
 * Runs `work`, whose only statement is sent together with BEGIN, the tenant's setting and COMMIT: one round trip. A second
 * statement is refused. Its plan is generic, for all values.
 */
export async function runOne<T>(knex: Knex, tenantId: string, work: (tx: Tx) => Promise<T>): Promise<T> {
  return withConnection(knex, (connection) => {
    let isOver = false;
    const query = async <R extends object>(text: string, values?: readonly unknown[]): Promise<R[]> => {
      if (isOver) throw new Error('The transaction has ended: it was of one statement.');
      isOver = true;
      const sendHeld = holdWrites(connection);
      const sent = [
        sendStatement(knex, connection, { text: 'begin' }),
        sendStatement(knex, connection, { text: SET_TENANT_AND_PLAN, values: [tenantId] }),
        sendStatement<R>(knex, connection, { text, ...(values && { values }) }),
        sendStatement(knex, connection, { text: 'commit' }),
      ] as const;
      sendHeld();
      // Waits for all of them before the connection is released.
      const failed = (await Promise.allSettled(sent)).find(({ status }) => status === 'rejected');
      if (failed?.status === 'rejected') throw failed.reason;
      return (await sent[2]).rows;
    };
    return work({ query, last: query });
  });
}
