/** `npm run projections:rebuild [-- --check]`: rebuilds projections from the logs, or only reports differences. */
import { loadConfig } from '../config.ts';
import { rebuildProjections } from '../modules/run-log/rebuild-projections.ts';
import { openExisting } from '../modules/platform/open-existing.ts';
import { runOnce } from '../modules/platform/run-once.ts';

const MOST_SHOWN = 50;

await runOnce(async () => {
  const check = process.argv.includes('--check');
  const database = await openExisting(loadConfig());
  try {
    const { runs, differences } = await rebuildProjections(database, { check });
    for (const { runId: run, table, row, column, stored, expected } of differences.slice(0, MOST_SHOWN)) {
      const values = `${JSON.stringify(stored)} instead of ${JSON.stringify(expected)}`;
      process.stdout.write(`run ${run}: ${table} ${row}: ${column} is ${values}\n`);
    }
    const done = check ? 'found' : 'mended';
    process.stdout.write(`${runs} runs, ${differences.length} differences ${done}.\n`);
    if (check && differences.length > 0) process.exitCode = 1;
  } finally {
    await database.close();
  }
}, ['--check']);
