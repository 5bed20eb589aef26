/** How a script starts others: from source or compiled, like itself. */
import { fileURLToPath } from 'node:url';

const EXTENSION = import.meta.url.endsWith('.ts') ? '.ts' : '.js';

/** Node's options for them. Compiled code is readable, and source maps would slow each start by a third of a second. */
export const NODE_ARGS = EXTENSION === '.ts' ? ['--import', import.meta.resolve('tsx')] : [];

/** The URL of a file of the repository, named without its extension: `api/main`. */
export const addressOf = (path: string): string => new URL(`../../${path}${EXTENSION}`, import.meta.url).href;

/** The same as a file path. */
export const programOf = (path: string): string => fileURLToPath(addressOf(path));
