/** `npm run secrets:reencrypt`: puts every secret under the first key of DROVER_SECRET_KEY (docs/secrets.md). */
import { loadConfig } from '../config.ts';
import { openExisting } from '../modules/platform/open-existing.ts';
import { openKeyring } from '../modules/tenants/open-keyring.ts';
import { runOnce } from '../modules/platform/run-once.ts';
import { reencryptSecrets } from '../modules/tenants/secrets.ts';

await runOnce(async () => {
  const config = loadConfig();
  const database = await openExisting(config);
  try {
    const { reencrypted, unreadable } = await reencryptSecrets(database, await openKeyring(config));
    for (const secret of unreadable) process.stdout.write(`unreadable: ${secret}\n`);
    process.stdout.write(`${reencrypted} secrets encrypted anew, ${unreadable.length} unreadable.\n`);
    if (unreadable.length > 0) process.exitCode = 1;
  } finally {
    await database.close();
  }
}, []);
