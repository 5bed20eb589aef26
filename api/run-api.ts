import { loadSharedConfig } from '../config.ts';
import { keepEmbeddingSettings } from '../modules/memory/keep-embedding-settings.ts';
import { runProcess } from '../modules/platform/run-process.ts';
import { ROUTES } from './routes.ts';
import { portOfApi, serve } from './serve.ts';

const program = { load: loadSharedConfig, listens: portOfApi };

/** Serves the API until told to stop, then lets open requests end. */
export async function runApi(): Promise<void> {
  await runProcess(program, async ({ context, closers }) => {
    const { config, log } = context;
    const api = await serve(context, ROUTES, config);
    const { shutdownGraceMs: graceMs } = config;
    const stop = () => {
      log.info('api stopping');
      return api.close(graceMs);
    };
    closers.add('api', stop, { graceMs });
    const settings = keepEmbeddingSettings(context);
    closers.add('embedding settings', () => settings.stop());
    log.info({ url: api.url, mode: config.mode }, 'api listening');
  });
}
