import { messageOf } from '../../core/errors.ts';
import { isUnreachable } from '../../db/database-errors.ts';
import { refuseArguments } from './refuse-arguments.ts';

/**
 * Runs a script; a failure prints one line to stderr and sets exit code 1. `taken`: the arguments that it accepts; if
 * absent, the script reads them itself.
 */
export async function runOnce(work: () => Promise<void>, taken?: readonly string[]): Promise<void> {
  if (taken && refuseArguments(taken)) return;
  try {
    await work();
  } catch (error) {
    process.stderr.write(`${lineOfDatabaseWork(error)}\n`);
    process.exitCode = 1;
  }
}

/** `lineOf` for a program whose only server is Postgres, and which does not wait for it. */
export function lineOfDatabaseWork(error: unknown): string {
  if (!isUnreachable(error)) return lineOf(error);
  const places = 'DATABASE_URL, or DATABASE_POOL_URL if that is set,';
  return `No Postgres answers at ${places} (${lineOf(error)}): expected the host and port of one that is up.`;
}

/** Postgres's errors for a wrong user or password, and for a missing database. */
const REFUSED_LOGINS: readonly unknown[] = ['28000', '28P01', '3D000'];
/** pg's error, which has no code, for a server without TLS if the URL asks for TLS. */
const NO_TLS = 'The server does not support SSL connections';

/** pg's error, which has no code either, for a server that asks for a password where the URL has none. */
const NO_PASSWORD = /^SASL: .*client password must be a /;

/** An error in one line; for an aggregate, all its errors. */
export function lineOf(error: unknown): string {
  const isRefused = error instanceof Error && 'code' in error && REFUSED_LOGINS.includes(error.code);
  if (isRefused || messageOf(error) === NO_TLS)
    return `DATABASE_URL leads to a Postgres that refuses it: ${messageOf(error)}.`;
  if (NO_PASSWORD.test(messageOf(error)))
    return 'The Postgres of DATABASE_URL, or of DATABASE_POOL_URL, asks for a password, and the URL has none.';
  if (error instanceof AggregateError && error.message === '') return error.errors.map(String).join('; ');
  return messageOf(error);
}
