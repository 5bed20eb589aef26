import { Command, CommanderError } from 'commander';
import { VERSION } from '../../core/version.ts';
import { addAgents } from './agents.ts';
import { addApprovals } from './approvals.ts';
import { addAudit } from './audit.ts';
import { EXIT, explain } from './errors.ts';
import { addFiles } from './files.ts';
import { addGraphs } from './graphs.ts';
import { addHandoffs } from './handoffs.ts';
import { addKeys } from './keys.ts';
import { addLocal } from './local.ts';
import { addMemory } from './memory.ts';
import { addRuns } from './runs.ts';
import { addSessions } from './sessions.ts';
import { addTasks } from './tasks.ts';
import { addTeams } from './teams.ts';
import { addThreads } from './threads.ts';
import { addWorkflows } from './workflows.ts';

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

/** Runs one command, given without the program's name; returns its exit code, or undefined if it has done its work or goes on. */
export async function runCommand(args: readonly string[]): Promise<number | undefined> {
  try {
    await createProgram().parseAsync(args, { from: 'user' });
    return undefined;
  } catch (error) {
    // Commander has printed the error; help and version are no errors.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
    const { message, exitCode } = explain(error);
    process.stderr.write(`drover: ${message}\n`);
    return exitCode;
  }
}

function createProgram(): Command {
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
  return program;
}

/** Subcommands added earlier do not inherit it. */
function overrideExits(command: Command): void {
  for (const each of command.commands) {
    each.exitOverride().showHelpAfterError('(--help says more)');
    overrideExits(each);
  }
}
