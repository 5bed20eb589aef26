/** Starts a worker process. Its parts are imported once a signal can stop it. */
import { stopEarly } from '../lib/early-stop.ts';
import { requireNode } from '../lib/require-node.ts';

requireNode();
stopEarly();
const { runWorker } = await import('./run-worker.ts');
await runWorker();
