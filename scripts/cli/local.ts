/**
 * Commands that are separate programs: they run in this process, with the arguments after their name (none for `start`
 * and `migrate`).
 */
import { InvalidArgumentError, type Command } from 'commander';

/** Adds the commands. */
export function addLocal(program: Command): void {
  program
    .command('start')
    .description('start Drover here, as the environment says')
    .argument('[part]', 'all (API and workers in one process), api, or worker', part, 'all')
    .action(async (chosen: Part) => {
      process.argv.splice(2);
      await PARTS[chosen]();
    });
  program
    .command('migrate')
    .description('bring the database to this version’s schema')
    .action(async () => {
      process.argv.splice(2);
      await import('../migrate.ts');
    });
  program
    .command('torture')
    .description('break a private fleet by a seeded schedule, and examine its runs')
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async () => {
      // It reads its own options from `process.argv`.
      process.argv.splice(2, 1);
      await import('../torture.ts');
    });
}

const PARTS = {
  all: () => import('../start.ts'),
  api: () => import('../../api/main.ts'),
  worker: () => import('../../workers/main.ts'),
};
type Part = keyof typeof PARTS;

function part(text: string): Part {
  if (text === 'all' || text === 'api' || text === 'worker') return text;
  throw new InvalidArgumentError('It is all, api or worker.');
}
