/**
 * Puts each program that tests start into a few files: Node reads two thousand modules for an API, which costs more than
 * most tests of it do. The modules stay beside it, for whoever imports one of them.
 */
import { readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { build, type Plugin } from 'esbuild';
import { PROGRAM_FLAGS } from './v8-flags.ts';

const PROGRAMS = [
  'api/main',
  'workers/main',
  'scripts/start',
  'scripts/migrate',
  'scripts/drover',
  'scripts/torture',
  'scripts/demo',
  'scripts/demo-team',
  'scripts/demo-memory',
  'scripts/demo-data-server',
  'scripts/demo/start-as-child',
  'scripts/draw-patterns',
];

/** They read files beside their own, or a torture patches them (`pg`). From `mysql` on it is what Knex could load and nobody installs. */
const EXTERNAL = [
  '@electric-sql/*',
  '@energetic-ai/*',
  '@bull-board/*',
  '@aws-sdk/*',
  'mathjs',
  'vega-datasets',
  'pg',
  'tsx',
  'mysql',
  'mysql2',
  'mariadb',
  'mariadb/callback',
  'oracledb',
  'sqlite3',
  'better-sqlite3',
  'tedious',
  'pg-query-stream',
  'pg-native',
];

/** The end of the name of a program that leads to its modules. */
export const UNBUNDLED = '.unbundled.js';

/** What CommonJS packages expect to have. */
const COMMONJS = `import { createRequire as bundleRequire } from 'node:module';
const require = bundleRequire(import.meta.url), __dirname = import.meta.dirname, __filename = import.meta.filename;`;

/** Bundles the programs of the repository for `folder`, which has all sources compiled: in the place of each two lines lead to its bundle, and it stays beside it. */
export async function bundlePrograms(folder: string): Promise<void> {
  const bundled = join(folder, 'bundled');
  await build({
    entryPoints: PROGRAMS.map((program) => ({ in: `${program}.ts`, out: nameOf(program) })),
    outdir: bundled,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    keepNames: true,
    // Half of a start is parsing.
    minify: true,
    external: EXTERNAL,
    banner: { js: COMMONJS },
    plugins: [keepAddresses(folder, bundled)],
    logLevel: 'error',
  });
  const flags = `import { setFlagsFromString } from 'node:v8';\nsetFlagsFromString('${PROGRAM_FLAGS}');\n`;
  await writeFile(join(bundled, 'v8-flags.js'), flags);
  for (const program of PROGRAMS) {
    await rename(join(folder, `${program}.js`), join(folder, `${program}${UNBUNDLED}`));
    const lines = ['v8-flags', nameOf(program)].map(
      (name) => `import './${relative(dirname(program), join('bundled', `${name}.js`))}';\n`,
    );
    await writeFile(join(folder, `${program}.js`), lines.join(''));
  }
}

const nameOf = (program: string): string => program.replaceAll('/', '-');

/** A module that asks where it is hears of its compiled self. */
function keepAddresses(folder: string, bundled: string): Plugin {
  const packages = `${resolve('node_modules')}/`;
  return {
    name: 'keep-addresses',
    setup(builder) {
      builder.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        if (path.startsWith(packages)) return undefined;
        const text = await readFile(path, 'utf8');
        const compiled = join(folder, relative('.', path).replace(/\.ts$/, '.js'));
        const address = `new URL(${JSON.stringify(relative(bundled, compiled))}, import.meta.url).href`;
        return { contents: text.replaceAll(/\bimport\.meta\.url\b/g, address), loader: 'ts' };
      });
    },
  };
}
