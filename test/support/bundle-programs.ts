/**
 * Puts each program that tests start into a few files: Node reads two thousand modules for an API, which costs more than
 * most tests of it do. The modules stay beside it, for whoever imports one of them.
 */
import { execFile } from 'node:child_process';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { promisify } from 'node:util';
import { build, type BuildOptions, type Plugin } from 'esbuild';
import { IMPORT } from './bundle-runner.ts';
import { PROGRAM_FLAGS } from './v8-flags.ts';

/** What tests start most often, by the modules that they load: one script, which V8 has compiled before (`bundle-runner.ts`). */
const SERVERS = {
  'api/main': 'api/run-api',
  'workers/main': 'workers/run-worker',
  'scripts/start': 'scripts/run-everything',
};

const PROGRAMS = [
  'scripts/migrate',
  'scripts/drover',
  'scripts/torture',
  'scripts/demo',
  'scripts/demo-team',
  'scripts/demo-memory',
  'scripts/demo-data-server',
  'scripts/demo/start-as-child',
  'scripts/draw-patterns',
  'test/support/odd-mcp-server',
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

const COMMON = {
  bundle: true,
  platform: 'node',
  target: 'node20',
  keepNames: true,
  // Half of a start is parsing.
  minify: true,
  external: EXTERNAL,
  logLevel: 'error',
} satisfies BuildOptions;

/** Bundles the programs of the repository for `folder`, which has all sources compiled: in the place of each two lines lead to its bundle, and it stays beside it. */
export async function bundlePrograms(folder: string): Promise<void> {
  const bundled = join(folder, 'bundled');
  await build({
    ...COMMON,
    entryPoints: PROGRAMS.map((program) => ({ in: `${program}.ts`, out: nameOf(program) })),
    outdir: bundled,
    splitting: true,
    format: 'esm',
    banner: { js: COMMONJS },
    plugins: [keepAddresses(folder, bundled)],
  });
  const flags = `import { setFlagsFromString } from 'node:v8';\nsetFlagsFromString('${PROGRAM_FLAGS}');\n`;
  await writeFile(join(bundled, 'v8-flags.js'), flags);
  for (const program of PROGRAMS) {
    const lines = ['v8-flags', nameOf(program)].map(
      (name) => `import './${pathFrom(program, `bundled/${name}.js`)}';\n`,
    );
    await replaceProgram(folder, program, lines.join(''));
  }
  await bundleServers(folder);
}

async function bundleServers(folder: string): Promise<void> {
  const bundled = join(folder, 'bundled');
  const servers = join(bundled, 'servers.cjs');
  const importOf = (module: string) => `() => import('./${module}.ts')`;
  const programs = Object.keys(SERVERS).map((program) => `'${program}': ${importOf(program)}`);
  const contents = `export const programs = { ${programs.join(', ')} };
export const parts = [${Object.values(SERVERS).map(importOf).join(', ')}];`;
  await build({
    ...COMMON,
    stdin: { contents, resolveDir: '.', loader: 'ts' },
    outfile: servers,
    format: 'cjs',
    banner: { js: `const bundleUrl = require('node:url').pathToFileURL(__filename).href;` },
    define: {
      'import.meta.url': 'bundleUrl',
      'import.meta.dirname': '__dirname',
      'import.meta.filename': '__filename',
    },
    plugins: [awaitInFunctions(), keepAddresses(folder, bundled)],
  });
  // Behind a backtick is code for another process.
  const script = (await readFile(servers, 'utf8')).replaceAll(/(?<![`\w$.])import\(/g, `${IMPORT}(`);
  await writeFile(servers, script);
  for (const program of Object.keys(SERVERS)) {
    const runner = pathFrom(program, 'test/support/bundle-runner.js');
    const file = `fileURLToPath(new URL('./${pathFrom(program, 'bundled/servers.cjs')}', import.meta.url))`;
    const lines = `import { fileURLToPath } from 'node:url';
import { runBundled } from './${runner}';
await runBundled(${file}, '${program}');
`;
    await replaceProgram(folder, program, lines);
  }
  const runner = JSON.stringify(resolve(folder, 'test/support/bundle-runner.js'));
  const keep = `await (await import(${runner})).keepCompiled(${JSON.stringify(resolve(servers))})`;
  await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', keep], { timeout: 60_000 });
}

/** What it says itself stays beside it. */
async function replaceProgram(folder: string, program: string, lines: string): Promise<void> {
  await rename(join(folder, `${program}.js`), join(folder, `${program}${UNBUNDLED}`));
  await writeFile(join(folder, `${program}.js`), lines);
}

const pathFrom = (program: string, file: string): string => relative(dirname(program), file);

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

/** A script has no `await` of its own: what a server does behind its imports is done in a function, and `done` with it. */
function awaitInFunctions(): Plugin {
  return {
    name: 'await-in-functions',
    setup(builder) {
      builder.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        if (!Object.keys(SERVERS).some((program) => path === resolve(`${program}.ts`))) return undefined;
        const text = await readFile(path, 'utf8');
        const start = text.indexOf('\n', text.lastIndexOf('\nimport ') + 1);
        const contents = `${text.slice(0, start)}\nexport const done = (async () => {${text.slice(start)}})();\n`;
        return { contents, loader: 'ts' };
      });
    },
  };
}
