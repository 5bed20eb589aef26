/** Migrates the database to this version's schema: the release step of a deployment. */
import { loadSharedConfig } from '../config.ts';
import { migrate } from '../db/migrate.ts';
import { runOnce } from '../modules/platform/run-once.ts';

await runOnce(async () => {
  const done = await migrate(loadSharedConfig());
  process.stdout.write(done.length === 0 ? 'The schema is up to date.\n' : `Migrated: ${done.join(', ')}\n`);
}, []);
