/** The release step of a deployment: `npm run migrate`. Its code is imported once Node is known to be new enough. */
import { requireNode } from '../lib/require-node.ts';

requireNode();
await import('./run-migrate.ts');
