/** The demo of memory: `npm run demo:memory`. What it consists of is imported once Node is known to be new enough. */
import { requireNode } from '../lib/require-node.ts';

requireNode();
await import('./run-demo-memory.ts');
