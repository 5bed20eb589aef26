import { messageOf } from '../../core/errors.ts';
import pino from 'pino';
import { ROUTES } from '../../api/routes.ts';
import { serve } from '../../api/serve.ts';
import { loadConfig } from '../../config.ts';
import { openPlatform } from '../../modules/platform/open-platform.ts';
import { createClient, type Client } from './client.ts';
import { CommandError, EXIT } from './errors.ts';

/** Serves the API on the data directory in this process, for this command alone; no run is driven meanwhile. */
export async function withDataDir<T>(key: string | undefined, work: (client: Client) => Promise<T>): Promise<T> {
  const platform = await openPlatform(loadConfig(), { log: pino({ level: 'silent' }) }).catch((error: unknown) => {
    const message = messageOf(error);
    throw new CommandError(EXIT.unreachable, `${message}\nIf it serves on another port, --url says where.`, {
      cause: error,
    });
  });
  try {
    const api = await serve(platform.context, ROUTES, { host: '127.0.0.1', port: 0 });
    try {
      return await work(createClient({ url: api.url, key: key ?? platform.apiKey, isIdle: true }));
    } finally {
      await api.close(1000);
    }
  } finally {
    await platform.close();
  }
}
