/** `npm run secrets:reencrypt [-- --lost]`: encrypts every secret with the first key of DROVER_SECRET_KEY (docs/secrets.md). */
import { loadConfig } from '../config.ts';
import { openExisting } from '../modules/platform/open-existing.ts';
import { openKeyring } from '../modules/tenants/open-keyring.ts';
import { runOnce } from '../modules/platform/run-once.ts';
import { reencryptSecrets } from '../modules/tenants/reencrypt-secrets.ts';
import { WEBHOOK_TOKENS } from '../modules/waits/webhook-urls.ts';
import { PUSH_TOKENS } from '../modules/webhooks/push-configs.ts';

const LACKING =
  'DROVER_SECRET_KEY lacks a key that is in use: nothing starts without it. Add it, or say --lost where it is gone, and what is under it with it.';

await runOnce(async () => {
  const config = loadConfig();
  const db = await openExisting(config);
  try {
    const isLost = process.argv.includes('--lost');
    const stores = { db, keyring: await openKeyring(config) };
    const { reencrypted, unreadable, isDone } = await reencryptSecrets(stores, {
      isLost,
      besides: [PUSH_TOKENS, WEBHOOK_TOKENS],
    });
    for (const secret of unreadable) process.stdout.write(`unreadable: ${secret}\n`);
    process.stdout.write(`${reencrypted} secrets encrypted anew, ${unreadable.length} unreadable.\n`);
    if (!isDone) throw new Error(LACKING);
  } finally {
    await db.close();
  }
}, ['--lost']);
