/** The command line. See docs/cli.md. */
import { Command, CommanderError } from 'commander';
import { VERSION } from '../core/version.ts';
import { addAgents } from './cli/agents.ts';
import { addApprovals } from './cli/approvals.ts';
import { addAudit } from './cli/audit.ts';
import { EXIT, explain } from './cli/errors.ts';
import { addFiles } from './cli/files.ts';
import { addGraphs } from './cli/graphs.ts';
import { addHandoffs } from './cli/handoffs.ts';
import { addKeys } from './cli/keys.ts';
import { addLocal } from './cli/local.ts';
import { addMemory } from './cli/memory.ts';
import { addRuns } from './cli/runs.ts';
import { addSessions } from './cli/sessions.ts';
import { addTasks } from './cli/tasks.ts';
import { addTeams } from './cli/teams.ts';
import { addThreads } from './cli/threads.ts';
import { addWorkflows } from './cli/workflows.ts';

const EXAMPLES = `
Examples:
  drover approvals list
  drover approvals edit 0192… --set amount=20
  drover runs follow 0192…
  drover workflows run 'Who are our top competitors?'
  drover memory search 'How does Ada like to travel?'
  drover audit verify

Exit codes: 0 done; 1 refused, or the run, the workflow or the chain is not whole; 2 wrong use; 3 nothing answers; 4 the key does not do.
`;

// EPIPE: the reader, such as `head`, has seen enough. Other write errors are failures.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE')
    process.stderr.write(`drover: the output cannot be written (${error.code ?? error.message})\n`);
  process.exit(error.code === 'EPIPE' ? EXIT.done : EXIT.refused);
});

const program = new Command('drover')
  .description('Runs AI agents as durable jobs. These commands speak to a service, or start one.')
  .version(VERSION)
  .showHelpAfterError('(--help says more)')
  .addHelpText('after', EXAMPLES)
  // Commands may reuse global option names, such as --version.
  .enablePositionalOptions()
  .exitOverride();
addAgents(program);
addApprovals(program);
addRuns(program);
addThreads(program);
addSessions(program);
addWorkflows(program);
addTasks(program);
addTeams(program);
addGraphs(program);
addHandoffs(program);
addMemory(program);
addAudit(program);
addFiles(program);
addKeys(program);
addLocal(program);
overrideExits(program);

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) {
    // Commander has printed the error; help and version are no errors.
    process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage;
  } else {
    const { message, exitCode } = explain(error);
    process.stderr.write(`drover: ${message}\n`);
    process.exitCode = exitCode;
  }
}

/** Subcommands added earlier do not inherit it. */
function overrideExits(command: Command): void {
  for (const each of command.commands) {
    each.exitOverride().showHelpAfterError('(--help says more)');
    overrideExits(each);
  }
}
