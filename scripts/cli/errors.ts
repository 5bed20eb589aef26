/** How a command ends, and what it says then. */
import { messageOf } from '../../core/errors.ts';
import { ConfigError } from '../../lib/environment.ts';

/** Exit codes, as docs/cli.md lists them. */
export const EXIT = { done: 0, refused: 1, usage: 2, unreachable: 3, denied: 4 } as const;
type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** A command that did not do what it was asked for; the message is for whoever typed it. */
export class CommandError extends Error {
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'CommandError';
    this.exitCode = exitCode;
  }
}

/** One line or more for stderr, and the code to end with. */
export function explain(error: unknown): { message: string; exitCode: ExitCode } {
  if (error instanceof CommandError) return { message: error.message, exitCode: error.exitCode };
  const message = messageOf(error);
  return { message, exitCode: error instanceof ConfigError ? EXIT.usage : EXIT.refused };
}
