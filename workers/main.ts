/** A worker process: serves the queues that `DROVER_QUEUES` names until SIGTERM, and says how it is where it was given a port for that. */
import type { Server } from 'node:http';
import { loadSharedConfig, type Config } from '../config.ts';
import type { Platform } from '../modules/platform/open-platform.ts';
import { runProcess } from '../modules/platform/run-process.ts';
import { openHealth, serveHealth } from './serve-health.ts';
import { startWorkers } from './start-workers.ts';

/** Where it was given a port for that. */
async function bind({ host, workerPort }: Config): Promise<Server | undefined> {
  return workerPort === undefined ? undefined : openHealth({ host, port: workerPort });
}

async function start({ context, closers }: Platform, server: Server | undefined): Promise<void> {
  const { shutdownGraceMs } = context.config;
  const health = server && serveHealth(context, server);
  if (health) closers.add('health', () => health.close());
  const workers = await startWorkers(context);
  const stop = async () => {
    const sinceMs = performance.now();
    context.log.info('worker stopping');
    health?.stopping();
    await workers.stop(shutdownGraceMs);
    context.log.info({ ms: Math.round(performance.now() - sinceMs) }, 'worker stopped');
  };
  closers.add('workers', stop, { graceMs: shutdownGraceMs });
}

await runProcess({ load: loadSharedConfig, bind, start });
