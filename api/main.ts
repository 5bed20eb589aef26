/** The API's process: serves until it is told to stop, then lets open requests end. */
import type { Server } from 'node:http';
import { loadSharedConfig } from '../config.ts';
import { keepEmbeddingSettings } from '../modules/memory/keep-embedding-settings.ts';
import type { Platform } from '../modules/platform/open-platform.ts';
import { runProcess } from '../modules/platform/run-process.ts';
import { openServer } from './kit/open-server.ts';
import { ROUTES } from './routes.ts';
import { serve } from './serve.ts';

async function start({ context, closers }: Platform, server: Server): Promise<void> {
  const { config, log } = context;
  const api = await serve(context, ROUTES, { ...config, server });
  const { shutdownGraceMs: graceMs } = config;
  const stop = () => {
    log.info('api stopping');
    return api.close(graceMs);
  };
  closers.add('api', stop, { graceMs });
  const settings = keepEmbeddingSettings(context);
  closers.add('embedding settings', () => settings.stop());
  log.info({ url: api.url, mode: config.mode }, 'api listening');
}

await runProcess({ load: loadSharedConfig, bind: openServer, start });
