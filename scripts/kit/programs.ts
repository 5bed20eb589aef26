/** How a script starts others: from source or compiled, as it was started itself. */
import { fileURLToPath } from 'node:url';

const EXTENSION = import.meta.url.endsWith('.ts') ? '.ts' : '.js';

/** What Node needs to run them. Compiled they read like their sources, and source maps would cost each start a third of a second. */
export const NODE_ARGS = EXTENSION === '.ts' ? ['--import', import.meta.resolve('tsx')] : [];

/** The address of a file of the repository, which is named without its extension: `api/main`. */
export const addressOf = (path: string): string => new URL(`../../${path}${EXTENSION}`, import.meta.url).href;

/** The same as a path. */
export const programOf = (path: string): string => fileURLToPath(addressOf(path));
