/** The log of a process: JSON lines on stdout. */
import pino, { type Logger } from 'pino';

/** Never logs message content, and removes fields that could hold a secret. */
export function createLog({ logLevel }: { logLevel: string }): Logger {
  return pino({
    level: logLevel,
    redact: {
      paths: ['*.authorization', '*.Authorization', '*.apiKey', '*.key', '*.secret', '*.password'],
      remove: true,
    },
  });
}

/** The same log, with errors serialized by `describeError`. */
export function describingErrors(log: Logger): Logger {
  return log.child({}, { serializers: { err: describeError } });
}

/** Fields of an error that say where it came from and what it was, with values made by code, not by users. */
const TOLD = ['code', 'errno', 'syscall', 'address', 'port', 'hostname', 'status', 'severity', 'routine', 'constraint'];

/**
 * An error's type, message, stack and codes. Other fields are left out, since libraries attach their input: the command
 * with a password or a message in it (ioredis), the refused row (pg).
 */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { type, message, stack } = pino.stdSerializers.err(error);
  const told = Object.entries(error).filter(([name, value]) => TOLD.includes(name) && typeof value !== 'object');
  const parts = error instanceof AggregateError && { aggregateErrors: error.errors.map(describeError) };
  return { type, message, stack, ...Object.fromEntries(told), ...parts };
}
