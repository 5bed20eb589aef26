import { messageOf } from '../../core/errors.ts';
import { refuseArguments } from './refuse-arguments.ts';

/**
 * A script that ends by itself: with exit code 1 and one line on stderr where it fails. `taken`: the arguments that it takes,
 * without which it reads them itself.
 */
export async function runOnce(work: () => Promise<void>, taken?: readonly string[]): Promise<void> {
  if (taken && refuseArguments(taken)) return;
  try {
    await work();
  } catch (error) {
    process.stderr.write(`${lineOf(error)}\n`);
    process.exitCode = 1;
  }
}

/** What Postgres refuses a connection with: a wrong user or password, and a database that there is not. */
const REFUSED_LOGINS: readonly unknown[] = ['28000', '28P01', '3D000'];
/** What pg says, without a code, of a server that has no TLS where the URL asks for it. */
const NO_TLS = 'The server does not support SSL connections';

/** What an error says, in one line; of several, what each of them says. */
export function lineOf(error: unknown): string {
  const isRefused = error instanceof Error && 'code' in error && REFUSED_LOGINS.includes(error.code);
  if (isRefused || messageOf(error) === NO_TLS)
    return `DATABASE_URL leads to a Postgres that refuses it: ${messageOf(error)}.`;
  if (error instanceof AggregateError && error.message === '') return error.errors.map(String).join('; ');
  return messageOf(error);
}
