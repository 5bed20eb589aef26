import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { ROOT } from './support/repository.ts';

/** ARCHITECTURE.md has both orders. Folders of one line do not import each other, but for the programs of the first one. */
const FOLDERS = [
  ['scripts', 'bench'],
  ['api', 'workers'],
  ['modules'],
  ['config.ts'],
  ['llm', 'tools'],
  ['jobs', 'bus'],
  ['db'],
  ['core', 'lib'],
];
const MODULES =
  'platform webhooks sessions workflows dashboard conversations runs tool-calls waits approvals governance budgets memory model-calls run-log agents tools-registry files tenants audit trace-export'.split(
    ' ',
  );

/** Tests whose subject is SQL, as the first line of each says; so it is in `test/db/`. The others ask `test/support/queries/`. */
const WITH_STATEMENTS = ['modules/audit/audit.test.ts', 'modules/runs/partitions.test.ts'];

/** What opens a process, keeps it up and shows its queues: above db, jobs and bus nothing else knows the mode, as the README says. */
const WITH_MODE = [
  'api/admin/queue-adapter.ts',
  'api/run-api.ts',
  'modules/platform/open-existing.ts',
  'modules/platform/open-platform.ts',
  'modules/platform/open-store.ts',
  'modules/platform/unserved-queues.ts',
  'modules/tenants/open-keyring.ts',
  'modules/tenants/rate-counter.ts',
  'workers/start-workers.ts',
];

/** By file what it imports of the source, types and imports at run time included. */
const imports = new Map(sourceFiles().map((file) => [file, importsOf(file)]));
const arrows = [...imports].flatMap(([from, targets]) => targets.map((to) => ({ from, to })));

describe('the structure', () => {
  it('has every folder of the source in its place', () => {
    const unplaced = (of: string[], known: string[]) => of.filter((name) => !known.includes(name));
    const folders = [...new Set([...imports.keys()].map(folderOf))];
    assert.deepEqual(unplaced(folders, FOLDERS.flat()), []);
    const modules = [...imports.keys()]
      .filter((file) => file.startsWith('modules/'))
      .flatMap((file) => moduleOf(file) ?? []);
    assert.deepEqual([...new Set(modules)].toSorted(), MODULES.toSorted());
    assert.ok(arrows.length > 1000, 'the imports are read');
  });

  it('has no circle of files', () => assert.deepEqual(circles(), []));

  it('has no arrow upward between folders', () => {
    const rank = (file: string) => FOLDERS.findIndex((line) => line.includes(folderOf(file)));
    refuse(({ from, to }) => folderOf(from) !== folderOf(to) && rank(from) >= rank(to));
  });

  it('has no arrow upward between modules', () => {
    const rank = (file: string) => MODULES.indexOf(moduleOf(file) ?? '');
    refuse(
      ({ from, to }) =>
        folderOf(from) === 'modules' &&
        rank(to) >= 0 &&
        moduleOf(from) !== moduleOf(to) &&
        (rank(from) < 0 || rank(from) > rank(to)),
    );
  });

  it('has no arrow into the inside of a module', () => {
    refuse(({ from, to }) => moduleOf(to) !== undefined && to.split('/').length > 3 && moduleOf(from) !== moduleOf(to));
  });

  it('has no route that imports db', () => refuse(({ from, to }) => folderOf(from) === 'api' && folderOf(to) === 'db'));

  it('knows the mode only where a process is opened and kept up, and its queues are shown', () => {
    const above = [...imports.keys()].filter((file) => /^(api|workers|modules)\//.test(file));
    const found = above.filter((file) =>
      /\b(config|settings)\.mode\b|\bqueues\.kind\b/.test(readFileSync(new URL(file, ROOT), 'utf8')),
    );
    assert.deepEqual(found.toSorted(), WITH_MODE);
  });

  it('loads what is large where it is used: a worker has no PGlite, no SDK of a provider and none of MCP from the beginning', () => {
    const loaded = new Set<string>();
    const visit = (file: string) => {
      if (loaded.has(file)) return;
      loaded.add(file);
      for (const next of loadedBy(file, /^\./)) visit(posix.join(posix.dirname(file), next));
    };
    visit('workers/run-worker.ts');
    assert.ok(loaded.has('tools/transports/mcp.ts') && loaded.has('db/embedded.ts'), 'the imports are followed');
    const large = /^(@electric-sql|@modelcontextprotocol|@anthropic-ai|openai|@aws-sdk|@opentelemetry)\b/;
    const found = [...loaded].flatMap((file) => loadedBy(file, large).map((name) => `${file} → ${name}`));
    assert.deepEqual(found, []);
  });

  it('has no statement in a test, but where SQL is the subject', () => {
    const names = readdirSync(new URL('test/', ROOT), { recursive: true, encoding: 'utf8' });
    const tests = names.filter((name) => name.endsWith('.test.ts') && !/^(db|support)\//.test(name));
    const found = tests.filter((name) =>
      /\.query(<[^(]*>)?\(\s*['"`]|queries\/access\.ts/.test(readFileSync(new URL(`test/${name}`, ROOT), 'utf8')),
    );
    assert.deepEqual(found.toSorted(), WITH_STATEMENTS);
  });
});

function refuse(isWrong: (arrow: { from: string; to: string }) => boolean): void {
  assert.deepEqual(
    arrows.filter(isWrong).map(({ from, to }) => `${from} → ${to}`),
    [],
  );
}

function folderOf(file: string): string {
  return file.split('/')[0] ?? '';
}

/** Files at the top of `modules/` belong to none, and stand below them all. */
function moduleOf(file: string): string | undefined {
  const [folder, module, ...rest] = file.split('/');
  return folder === 'modules' && rest.length > 0 ? module : undefined;
}

/** Circles by depth-first search: a file that is met again on the way from it. */
function circles(): string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const visit = (file: string, way: readonly string[]) => {
    if (way.includes(file)) found.push([...way.slice(way.indexOf(file)), file].join(' → '));
    if (done.has(file)) return;
    done.add(file);
    for (const next of imports.get(file) ?? []) visit(next, [...way, file]);
  };
  for (const file of imports.keys()) visit(file, []);
  return found;
}

function sourceFiles(): string[] {
  const skipped = /^(test|examples|node_modules|dist|\..*)$/;
  return readdirSync(ROOT, { withFileTypes: true }).flatMap((entry) => {
    if (skipped.test(entry.name)) return [];
    if (entry.isFile()) return entry.name.endsWith('.ts') ? [entry.name] : [];
    if (!entry.isDirectory()) return [];
    const names = readdirSync(new URL(`${entry.name}/`, ROOT), { recursive: true, encoding: 'utf8' });
    return names.filter((name) => name.endsWith('.ts')).map((name) => `${entry.name}/${name}`);
  });
}

/** What such a name is for, of the imports that are loaded together with the file. */
function loadedBy(file: string, name: RegExp): string[] {
  const text = readFileSync(new URL(file, ROOT), 'utf8');
  const imported = [...text.matchAll(/^(?:import|export)\s+(?!type\b)[^'";]*?from\s*'([^']+)'/gm)];
  return imported.map((match) => match[1] ?? '').filter((place) => name.test(place));
}

function importsOf(file: string): string[] {
  const text = readFileSync(new URL(file, ROOT), 'utf8');
  const places = [...text.matchAll(/(?:\bfrom|\bimport\(?)\s*'(\.[^']+\.ts)'/g)].map((match) => match[1] ?? '');
  return places.map((place) => posix.join(posix.dirname(file), place));
}
