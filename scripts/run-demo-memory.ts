/** The demo of memory: `npm run demo:memory`. Three conversations on different days, by a clock that the demo sets. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pino from 'pino';
import { ROUTES } from '../api/routes.ts';
import { serve } from '../api/serve.ts';
import { loadConfig } from '../config.ts';
import { messageOf } from '../core/errors.ts';
import { openPlatform } from '../modules/platform/open-platform.ts';
import { startWorkers } from '../workers/start-workers.ts';
import { createApiClient } from './demo/api-client.ts';
import { playMemory } from './demo/memory-scenes.ts';
import { createScreen } from './demo/screen.ts';
import { optionsOf } from './kit/options-of.ts';

const HELP = `usage: npm run demo:memory

Starts Drover in this process, keeps nothing, and has three conversations on three days: what is said in one is remembered after it,
recalled in the next, with why, corrected where it has changed, and forgotten where that is asked for. No model is needed: without a key
rules learn from the turns. Ends with 0 where all of that was so, else with 1.
`;

const LIMIT_MS = 120_000;
const POLL_MS = 100;

const values = optionsOf('demo:memory', { help: { type: 'boolean', short: 'h' } });
if (values.help) process.stdout.write(HELP);
else process.exit(await run());

async function run(): Promise<number> {
  const screen = createScreen(process.stdout);
  let today = new Date('2026-03-02T09:00:00Z');
  const key = `demo_${Math.random().toString(36).slice(2)}`;
  const dir = mkdtempSync(join(tmpdir(), 'drover-demo-'));
  process.once('exit', () => rmSync(dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }));
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));
  const own = {
    DROVER_DATA_DIR: join(dir, 'data'),
    DROVER_API_KEY: key,
    DROVER_MODEL: 'offline',
    DROVER_EMBEDDING_MODEL: 'off',
  };
  const log = pino({ level: 'silent' });
  const platform = await openPlatform(loadConfig(own), { log, clock: () => today });
  const workers = await startWorkers(platform.context);
  const api = await serve(platform.context, ROUTES, { host: '127.0.0.1', port: 0 });
  try {
    return await playMemory({
      screen,
      client: createApiClient({ url: api.url, key }),
      setToday: (day) => (today = day),
      pause: (signal) => delay(POLL_MS, undefined, { signal }),
      signal: AbortSignal.timeout(LIMIT_MS),
    });
  } catch (error) {
    screen.verdict(messageOf(error), false);
    return 1;
  } finally {
    await api.close(1000);
    await workers.stop(3000);
    await platform.close();
  }
}
