/** Ends `npm test` with one line where Node is too old: mocha ends in a stack there, before it reads a file of the tests. */
import { requireNode } from '../lib/require-node.ts';

requireNode();
