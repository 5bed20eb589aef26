/** A worker process: serves the queues that `DROVER_QUEUES` names until SIGTERM. */
import { loadConfig } from '../config.ts';
import { openPlatform } from '../modules/platform/open-platform.ts';
import { runProcess } from '../modules/platform/run-process.ts';
import { startWorkers } from './start-workers.ts';

await runProcess(async () => {
  const config = loadConfig();
  const platform = await openPlatform(config);
  const workers = await startWorkers(platform.context);
  return async () => {
    await workers.stop(config.shutdownGraceMs);
    await platform.close();
  };
});
