/**
 * Sends statements one behind the other on one connection, without waiting for answers. The server proceeds to the next by
 * itself while this process prepares more; with a connection for each statement, two processes of the server and this one
 * would compete for two cores.
 */
import type { Knex } from 'knex';
import type { ClientBase, QueryResult } from 'pg';
import { isDatabaseAway, isStalePlan, isUnprepared } from './database-errors.ts';
import {
  hasOneConnection,
  refuseClosed,
  runStatement,
  sendStatement,
  withConnection,
  type Statement,
} from './knex-client.ts';

/**
 * Time after which new statements start another line, so that they do not queue behind one that waits for a lock, and so that
 * other users of the pool get the connection.
 */
export const LINE_MS = 50;

interface Line {
  connection: Promise<ClientBase>;
  openedAtMs: number;
  underWay: number;
  /** Releases the connection, with the error that made it unusable, if any. */
  end: (failure: unknown) => void;
  failure: unknown;
}

type Send = <R extends object>(statement: Statement) => Promise<QueryResult<R>>;

/**
 * Each statement is a separate transaction, and its failure does not affect those behind it. With a single shared connection,
 * statements take their turn with all others.
 */
export function createStatementLine(knex: Knex): Send {
  const sendAlone: Send = (statement) => runStatement(knex, statement);
  if (hasOneConnection(knex)) return sendAlone;
  const sendInLine = createLines(knex);
  return async <R extends object>(statement: Statement) => {
    try {
      return await sendInLine<R>(statement);
    } catch (error) {
      // An earlier statement should have prepared it, but failed, for example by a lock timeout.
      if (!isUnprepared(error)) throw error;
      return sendAlone<R>(statement);
    }
  };
}

function createLines(knex: Knex): Send {
  let current: Line | undefined;

  return async <R extends object>(statement: Statement) => {
    // An open line would still accept it.
    refuseClosed(knex);
    if (!current || performance.now() - current.openedAtMs >= LINE_MS) current = openLine(knex);
    const line = current;
    const behind = line.underWay++;
    try {
      return await sendStatement<R>(knex, await line.connection, { ...statement, behind });
    } catch (error) {
      if (isDatabaseAway(error) || isStalePlan(error)) {
        line.failure ??= error;
        if (current === line) current = undefined;
      }
      throw error;
    } finally {
      if (--line.underWay === 0) {
        if (current === line) current = undefined;
        line.end(line.failure);
      }
    }
  };
}

function openLine(knex: Knex): Line {
  const line: Omit<Line, 'connection'> = {
    openedAtMs: performance.now(),
    underWay: 0,
    end: () => undefined,
    failure: undefined,
  };
  const connection = new Promise<ClientBase>((resolve, reject) => {
    withConnection(knex, (free) => {
      resolve(free);
      return new Promise<void>((over, fail) => {
        line.end = (failure) => (failure === undefined ? over() : fail(failure));
      });
    }).catch(reject);
  });
  return Object.assign(line, { connection });
}
