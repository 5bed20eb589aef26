import { loadSharedConfig, type Config } from '../config.ts';
import { runProcess } from '../modules/platform/run-process.ts';
import { serveHealth } from './serve-health.ts';
import { startWorkers } from './start-workers.ts';

const program = {
  load: loadSharedConfig,
  listens: ({ workerPort: port }: Config) => (port === undefined ? undefined : { port, named: 'DROVER_WORKER_PORT' }),
};

/** A worker: serves the queues in `DROVER_QUEUES` until SIGTERM, and answers health checks if a port is set for that. */
export async function runWorker(): Promise<void> {
  await runProcess(program, async ({ context, closers }) => {
    const { host, workerPort, shutdownGraceMs } = context.config;
    const health = workerPort === undefined ? undefined : await serveHealth(context, { host, port: workerPort });
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
  });
}
