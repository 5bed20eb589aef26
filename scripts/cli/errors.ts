/** How a command ends, and its last message. */
import { messageOf } from '../../core/errors.ts';
import { ConfigError } from '../../lib/environment.ts';

/** Exit codes, as docs/cli.md lists them. */
export const EXIT = { done: 0, refused: 1, usage: 2, unreachable: 3, denied: 4 } as const;
type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** A failed command; the message is for the user. */
export class CommandError extends Error {
  readonly exitCode: ExitCode;
  /** The fields of a request that the service finds fault with, such as `body.agent_id`. */
  readonly faulty: readonly string[];

  constructor(exitCode: ExitCode, message: string, more: { cause?: unknown; faulty?: readonly string[] } = {}) {
    super(message, { cause: more.cause });
    this.name = 'CommandError';
    this.exitCode = exitCode;
    this.faulty = more.faulty ?? [];
  }
}

/** The message for stderr (one line or more) and the exit code. */
export function explain(error: unknown): { message: string; exitCode: ExitCode } {
  if (error instanceof CommandError) return { message: error.message, exitCode: error.exitCode };
  const message = messageOf(error);
  return { message, exitCode: error instanceof ConfigError ? EXIT.usage : EXIT.refused };
}
