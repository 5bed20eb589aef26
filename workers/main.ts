/** A worker process: serves the queues that `DROVER_QUEUES` names until SIGTERM. */
import { loadSharedConfig } from '../config.ts';
import { runProcess } from '../modules/platform/run-process.ts';
import { startWorkers } from './start-workers.ts';

await runProcess(loadSharedConfig, async ({ context, closers }) => {
  const workers = await startWorkers(context);
  closers.add('workers', () => workers.stop(context.config.shutdownGraceMs));
});
