/** Where the repository is, and whether its tests run compiled: `.ci/run` compiles them once, others run them by tsx. */
import { fileURLToPath, pathToFileURL } from 'node:url';

/** Tests are started in the repository; compiled ones stand elsewhere. */
export const ROOT = pathToFileURL(`${process.cwd()}/`);

/** The folder of everything that was compiled, if this is a part of it. */
export const BUILD = import.meta.url.endsWith('.js') ? fileURLToPath(new URL('../../', import.meta.url)) : undefined;
