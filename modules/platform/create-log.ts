/** The log of a process: JSON lines on stdout. */
import pino, { type Logger } from 'pino';

/** Message content is never logged, and what could hold a secret is cut out. */
export function createLog({ logLevel }: { logLevel: string }): Logger {
  return pino({
    level: logLevel,
    redact: {
      paths: ['*.authorization', '*.Authorization', '*.apiKey', '*.key', '*.secret', '*.password'],
      remove: true,
    },
  });
}

/** The same log, with errors as `describeError` has them. */
export function describingErrors(log: Logger): Logger {
  return log.child({}, { serializers: { err: describeError } });
}

/** What says of an error where it came from and what it was, in words and numbers that are the code's own. */
const TOLD = ['code', 'errno', 'syscall', 'address', 'port', 'hostname', 'status', 'severity', 'routine', 'constraint'];

/**
 * An error by its type, message, stack and codes. Libraries hang on theirs what they were given: the command with a password
 * or a message in it (ioredis), the row that was refused (pg).
 */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { type, message, stack } = pino.stdSerializers.err(error);
  const told = Object.entries(error).filter(([name, value]) => TOLD.includes(name) && typeof value !== 'object');
  const parts = error instanceof AggregateError && { aggregateErrors: error.errors.map(describeError) };
  return { type, message, stack, ...Object.fromEntries(told), ...parts };
}
