/** The API's process: serves until it is told to stop, then lets open requests end. */
import { loadConfig } from '../config.ts';
import { openPlatform } from '../modules/platform/open-platform.ts';
import { runProcess } from '../modules/platform/run-process.ts';
import { ROUTES } from './routes.ts';
import { serve } from './serve.ts';

await runProcess(async () => {
  const config = loadConfig();
  const platform = await openPlatform(config);
  const { log } = platform.context;
  const api = await serve(platform.context, ROUTES, config).catch(async (error: unknown) => {
    await platform.close();
    throw error;
  });
  log.info({ url: api.url, mode: config.mode }, 'api listening');
  return async () => {
    log.info('api stopping');
    await api.close(config.shutdownGraceMs);
    await platform.close();
  };
});
