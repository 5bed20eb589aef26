/**
 * Statements of a pool that are sent one behind the other on one connection, without waiting for the answers of those
 * before. The server goes from one to the next by itself while this process prepares the one after; on a connection for
 * each, two of the server's processes and this one push each other from two cores.
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
 * How long a line takes statements before another connection begins the next one: whoever comes after does not stand
 * behind one that waits for a lock, and whoever else wants a connection of the pool gets it.
 */
export const LINE_MS = 50;

interface Line {
  connection: Promise<ClientBase>;
  openedAtMs: number;
  underWay: number;
  /** Gives the connection back, and says what was wrong with it. */
  end: (failure: unknown) => void;
  failure: unknown;
}

type Send = <R extends object>(statement: Statement) => Promise<QueryResult<R>>;

/**
 * Each statement is a transaction of its own, and one that fails does not hurt those behind it. Where all share one
 * connection they take it in turn with everybody else.
 */
export function createStatementLine(knex: Knex): Send {
  const sendAlone: Send = (statement) => runStatement(knex, statement);
  if (hasOneConnection(knex)) return sendAlone;
  const sendInLine = createLines(knex);
  return async <R extends object>(statement: Statement) => {
    try {
      return await sendInLine<R>(statement);
    } catch (error) {
      // One of its name before it was to be prepared, and was not, as where that waited for a lock for too long.
      if (!isUnprepared(error)) throw error;
      return sendAlone<R>(statement);
    }
  };
}

function createLines(knex: Knex): Send {
  let current: Line | undefined;

  return async <R extends object>(statement: Statement) => {
    // A line that is open already would take it.
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
