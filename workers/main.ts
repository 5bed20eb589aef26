/** A worker process. What it consists of is imported once a signal can stop it. */
import { stopEarly } from '../lib/early-stop.ts';

stopEarly();
const { runWorker } = await import('./run-worker.ts');
await runWorker();
