/** The API's process. Its code is imported once a signal can stop it. */
import { stopEarly } from '../lib/early-stop.ts';
import { requireNode } from '../lib/require-node.ts';

requireNode();
stopEarly();
const { runApi } = await import('./run-api.ts');
await runApi();
