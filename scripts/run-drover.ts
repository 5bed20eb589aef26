/** The command line. See docs/cli.md. */
import { EXIT } from './cli/errors.ts';
import { runCommand } from './cli/run-command.ts';

// EPIPE: the reader, such as `head`, has seen enough. Other write errors are failures.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE')
    process.stderr.write(`drover: the output cannot be written (${error.code ?? error.message})\n`);
  process.exit(error.code === 'EPIPE' ? EXIT.done : EXIT.refused);
});

const exitCode = await runCommand(process.argv.slice(2));
if (exitCode !== undefined) process.exitCode = exitCode;
