/** Completes dist after tsc: what the compiled code reads at run time and the compiler does not carry over. */
import { cpSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

// `../package.json` holds the version and says that dist is ESM, wherever dist is put.
cpSync(`${root}package.json`, `${root}dist/package.json`);
cpSync(`${root}db`, `${root}dist/db`, { recursive: true, filter: (path) => !path.endsWith('.ts') });
