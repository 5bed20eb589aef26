/** `npm run torture`. Its code is imported once Node is known to be new enough. */
import { requireNode } from '../lib/require-node.ts';

requireNode();
await import('./run-torture.ts');
