/** The life of a process: start, wait for a signal, stop cleanly, and never for longer than the grace period. */
import { messageOf } from '../../core/errors.ts';

/** `start` answers how to stop. A mistake in the configuration is one line on stderr and exit code 1. */
export async function runProcess(start: () => Promise<() => Promise<void>>): Promise<void> {
  let stop: () => Promise<void>;
  try {
    stop = await start();
  } catch (error) {
    process.stderr.write(`${lineOf(error)}\n`);
    process.exit(1);
  }
  let stopping = false;
  const onSignal = () => {
    // A second Ctrl-C means it.
    if (stopping) process.exit(130);
    stopping = true;
    stop().then(
      () => process.exit(0),
      (error: unknown) => {
        process.stderr.write(`${lineOf(error)}\n`);
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
}

function lineOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(String).join('; ');
  return messageOf(error);
}

/** A script that ends by itself. */
export async function runOnce(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    process.stderr.write(`${lineOf(error)}\n`);
    process.exitCode = 1;
  }
}
