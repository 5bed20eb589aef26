import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { ROOT } from '../support/repository.ts';

const read = (path: string | URL) => readFileSync(new URL(path, ROOT), 'utf8');

describe('the deployment', () => {
  it('starts compiled files of this repository, one per line of the Procfile', () => {
    const names = [...read('Procfile').matchAll(/^(\w+): .*node (?:--\S+ )*dist\//gm)].map((match) => match[1]);
    assert.deepEqual(names, ['release', 'api', 'worker']);
    for (const main of procfileMains()) assert.ok(read(main).length > 0, main);
  });

  it('imports nothing at run time that only development installs', () => {
    const { dependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string> };
    const packages = packagesReachedFrom(procfileMains());
    assert.ok(packages.size > 5, 'the walk must have found the program');
    assert.deepEqual(
      [...packages].filter((name) => !(name in dependencies)),
      [],
    );
  });
});

/** The sources of the Procfile's programs. */
function procfileMains(): string[] {
  return [...read('Procfile').matchAll(/node (?:--\S+ )*dist\/(\S+)\.js/g)].map((match) => `${match[1]}.ts`);
}

/** The packages that these files import, themselves or through other files of ours; types are gone by then. */
function packagesReachedFrom(mains: readonly string[]): Set<string> {
  const packages = new Set<string>();
  const seen = new Set<string>();
  const open = mains.map((main) => new URL(main, ROOT));
  for (let file = open.pop(); file; file = open.pop()) {
    if (seen.has(file.href)) continue;
    seen.add(file.href);
    for (const specifier of importsOf(read(file))) {
      if (specifier.startsWith('.')) open.push(new URL(specifier, file));
      else if (!isBuiltin(specifier)) packages.add(packageOf(specifier));
    }
  }
  return packages;
}

function importsOf(source: string): string[] {
  const statements = source.matchAll(/^(?:import|export)\s(?!type\s)[^'";]*?from '([^']+)'|^import '([^']+)'/gm);
  const dynamic = source.matchAll(/\bimport\('([^']+)'\)/g);
  return [...statements, ...dynamic].map((match) => match[1] ?? match[2] ?? '');
}

function packageOf(specifier: string): string {
  const parts = specifier.split('/');
  return parts.slice(0, specifier.startsWith('@') ? 2 : 1).join('/');
}
