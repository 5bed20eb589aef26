import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { ROUTES } from '../api/routes.ts';
import { LIMITS } from '../core/limits.ts';
import { PROVIDERS, variableOf } from '../llm/providers.ts';

const PROVIDER_VARIABLES = PROVIDERS.flatMap((each) => [variableOf(each, 'API_KEY'), variableOf(each, 'BASE_URL')]);

const root = new URL('../', import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), 'utf8');
const pages = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  ...readdirSync(new URL('docs/', root))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

describe('the documentation', () => {
  it('has the limits of the code, each with its value', () => {
    const rows = [...read('docs/limits.md').matchAll(/^\| `(\w+)` \| (\d+) \| \S.* \|$/gm)];
    const table = Object.fromEntries(rows.map(([, name = '', value]) => [name, Number(value)]));
    assert.deepEqual(table, { ...LIMITS });
  });

  it('describes every variable that config.ts reads, and no other of ours', () => {
    const own = [...read('config.ts').matchAll(/\(env, '([A-Z_]+)'/g)].map((match) => match[1] ?? '');
    const variables = [...own, ...PROVIDER_VARIABLES];
    const tables = read('docs/configuration.md')
      .split('\n')
      .filter((line) => line.startsWith('| `'));
    const described = tables.flatMap((line) => line.split('|')[1]?.match(/[A-Z][A-Z_]+/g) ?? []);
    assert.deepEqual(new Set(described), new Set(variables));
  });

  it('lists the routes that there are', () => {
    const listed = [...read('docs/api.md').matchAll(/^\| `([A-Z]+) (\/\S+)` \|/gm)].map(
      ([, method, path]) => `${method} ${path}`,
    );
    // Under an agent's path a run has the same routes again, which one sentence says.
    const there = ROUTES.map(
      ({ method, path }) => `${method.toUpperCase()} ${path.replaceAll(/:(\w+)/g, '{$1}')}`,
    ).filter((route) => !route.includes('/v1/agents/{id}/runs/'));
    assert.deepEqual(listed.toSorted(), [...new Set(there)].toSorted());
  });

  for (const page of pages) {
    it(`has no broken link in ${page}`, () => {
      const links = [...read(page).matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)];
      for (const [link, path = '', anchor] of links) {
        const target = path === '' ? new URL(page, root) : new URL(path, new URL(page, root));
        assert.ok(existsSync(target), `${link} leads nowhere`);
        if (anchor !== undefined)
          assert.ok(anchorsOf(readFileSync(target, 'utf8')).includes(anchor), `${link} has no anchor`);
      }
    });
  }
});

function anchorsOf(markdown: string): string[] {
  const headings = [...markdown.matchAll(/^#+ (.*)$/gm)].map((match) => match[1] ?? '');
  return headings.map((text) =>
    text
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
}
