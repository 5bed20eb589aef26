import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';
import { agentRequest } from '../api/agents/schemas.ts';
import { toolRequest } from '../api/tools/schemas.ts';
import { ROUTES } from '../api/routes.ts';
import { CONTRACTS } from '../jobs/contracts.ts';
import { LIMITS } from '../core/limits.ts';
import { PROVIDERS, variableOf } from '../llm/providers.ts';
import { startFakeAnthropic, type AnthropicReply } from './support/fake-anthropic.ts';
import type { FakeServer } from './support/fake-http.ts';
import { openTestPlatform, type TestPlatform } from './support/platform.ts';
import { ROOT } from './support/repository.ts';
import { schemaFields } from './support/schema-fields.ts';
import { OTEL_VARIABLES, variablesRead } from './support/variables.ts';

const PROVIDER_VARIABLES = PROVIDERS.flatMap((each) => [variableOf(each, 'API_KEY'), variableOf(each, 'BASE_URL')]);

const read = (path: string) => readFileSync(new URL(path, ROOT), 'utf8');
const pages = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  ...readdirSync(new URL('docs/', ROOT), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

describe('the documentation', () => {
  it('has the limits of the code, each with its value', () => {
    const rows = [...read('docs/limits.md').matchAll(/^\| `(\w+)` \| (\d+) \| \S.* \|$/gm)];
    const table = Object.fromEntries(rows.map(([, name = '', value]) => [name, Number(value)]));
    assert.deepEqual(table, { ...LIMITS });
  });

  it('has every field of an agent, each with the kind of its value', () => {
    const schema = z.toJSONSchema(agentRequest, { io: 'input' });
    // They have pages of their own, or are the provider's.
    const whole = ['workflow_graph', 'llm_config.server_tools', 'model_preferences.server_tools'];
    const rows = [...read('docs/agents.md').matchAll(/^\| `([^`]+)` \| ([^|]+) \| \S.* \|$/gm)];
    assert.deepEqual(new Map(rows.map(([, path = '', kind = '']) => [path, kind])), schemaFields(schema, whole));
  });

  it('has every field of a tool, each with the kind of its value, and says how its calls are made to wait', () => {
    const schema = z.toJSONSchema(toolRequest, { io: 'input' });
    const [section = ''] = /^## Fields of a tool\n[^]*?(?=^## )/m.exec(read('docs/tools.md')) ?? [];
    const rows = [...section.matchAll(/^\| `([^`]+)` \| ([^|]+) \| \S.* \|$/gm)];
    const fields = new Map(rows.map(([, path = '', kind = '']) => [path, kind]));
    assert.deepEqual(fields, schemaFields(schema, ['transport']));
    assert.match(section, /^\| `risk_level` \|.* \(`WRITE_LOW_RISK`\)/m);
    assert.match(section, /"risk_level": "WRITE_HIGH_RISK"/);
  });

  it('describes every variable that is read, and no other of ours', () => {
    const variables = [...variablesRead(), ...PROVIDER_VARIABLES, ...OTEL_VARIABLES];
    const tables = read('docs/configuration.md')
      .split('\n')
      .filter((line) => line.startsWith('| `'));
    const described = tables.flatMap((line) => line.split('|')[1]?.match(/[A-Z][A-Z_]+/g) ?? []);
    assert.deepEqual(new Set(described), new Set(variables));
  });

  it('names every queue, and how many jobs of it a process does at once', () => {
    const page = read('docs/configuration.md');
    const [named] = /^The queues are [^.]+\./m.exec(page) ?? [''];
    assert.deepEqual(new Set(named.match(/(?<=`)[a-z-]+(?=`)/g)), new Set(CONTRACTS.map(({ name }) => name)));
    const defaults = /^\| `DROVER_CONCURRENCY` \| ([^|]+) \|/m.exec(page)?.[1]?.split('; ') ?? [];
    const [others, ...own] = defaults.map((text) => /^(?:`([a-z-]+)` )?(\d+)(?: embedded, else (\d+))?$/.exec(text));
    for (const { name, concurrency } of CONTRACTS) {
      const [, , embedded, services = embedded] = own.find((each) => each?.[1] === name) ?? others ?? [];
      assert.deepEqual({ embedded: Number(embedded), services: Number(services) }, concurrency, name);
    }
  });

  it('says of every queue what its jobs are, and which queues the board shows as they are', () => {
    const queues = new Set(CONTRACTS.map(({ name }) => name));
    const table = /^\| queue \|.*\n(?:\|.*\n)+/m.exec(read('docs/design/engine.md'))?.[0] ?? '';
    assert.deepEqual(new Set(table.match(/(?<=^\| `)[a-z-]+/gm)), queues);
    const [own] = /The queues ([^.]+) are BullMQ's own/.exec(read('docs/operations.md')) ?? [''];
    assert.deepEqual(new Set([...(own.match(/(?<=`)[a-z-]+(?=`)/g) ?? []), 'turns']), queues);
  });

  const routes = ROUTES.map(({ method, path }) => `${method.toUpperCase()} ${path.replaceAll(/:(\w+)/g, '{$1}')}`);

  it('lists the routes that there are', () => {
    const listed = [...read('docs/api.md').matchAll(/^\| `([A-Z]+) (\/\S+)` \|/gm)].map(
      ([, method, path]) => `${method} ${path}`,
    );
    // Under an agent's path a run has the same routes again, which one sentence says.
    const there = routes.filter((route) => !route.includes('/v1/agents/{id}/runs/'));
    assert.deepEqual(listed.toSorted(), [...new Set(there)].toSorted());
  });

  it('says that a run has the same routes under the path of its agent', () => {
    assert.match(
      read('docs/api.md'),
      /^Every path under `\/v1\/runs\/{run}` also exists under `\/v1\/agents\/{id}\/runs\/{run}`/m,
    );
    const under = (prefix: string) =>
      routes.flatMap((route) => (route.includes(` ${prefix}`) ? [route.replace(prefix, '')] : [])).toSorted();
    assert.deepEqual(under('/v1/agents/{id}/runs/{run}'), under('/v1/runs/{run}'));
  });

  it('has every table of the schema', () => {
    const tables = [...read('db/schema.sql').matchAll(/^table (\w+)(?! partition of)\b.*$/gm)];
    const names = tables.flatMap(([line, name = '']) => (line.includes(' partition of ') ? [] : [name]));
    assert.ok(names.length > 60, `${names.length} tables`);
    const page = read('docs/design/data.md');
    assert.deepEqual(
      names.filter((name) => !page.includes(`\`${name}\``)),
      [],
    );
  });

  it('has every act that is put into the audit log', () => {
    const sources = ['modules', 'db', 'api', 'workers'].flatMap((folder) =>
      readdirSync(new URL(`${folder}/`, ROOT), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts'))
        .map((name) => read(`${folder}/${name}`)),
    );
    const lines = sources.flatMap((text) => text.match(/^.*\baction\b.*$/gm) ?? []);
    const acts = lines.flatMap((line) => [...line.matchAll(/'([a-z_]+\.[a-z_]+)'/g)].map(([, act = '']) => act));
    assert.ok(acts.length > 50, `${acts.length} acts`);
    const documented = new Set(read('docs/audit.md').match(/(?<=`)[a-z_]+\.[a-z_]+(?=`)/g));
    assert.deepEqual([...new Set(acts)].filter((act) => !documented.has(act)).toSorted(), []);
  });

  it('has the two commands on lines of their own', () => {
    const lines = read('README.md').split('\n');
    for (const command of ['npm ci && npm run demo', 'npm test']) assert.ok(lines.includes(command), command);
  });

  for (const page of pages.filter((name) => /\$(?:KEY|API)\b/.test(read(name)))) {
    it(`says in ${page} where the key and the address of its commands come from, and hides no error of theirs`, () => {
      const [first = ''] = [...read(page).matchAll(/^```sh\n[^]*?^```$/gm)].flatMap(([block]) =>
        /\$(?:KEY|API)\b/.test(block) ? [block] : [],
      );
      for (const name of ['KEY', 'API'].filter((each) => read(page).includes(`$${each}`)))
        assert.match(first, new RegExp(`\\b${name}=[^]*\\$${name}\\b`), `${name} is not set in the first commands`);
      assert.doesNotMatch(read(page), /\bcurl -sN? /, 'curl says nothing of an error');
      assert.doesNotMatch(read(page), /\| jq\b/, 'jq may not be there');
    });
  }

  for (const page of pages) {
    it(`has no broken link in ${page}`, () => {
      const links = [...read(page).matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)];
      for (const [link, path = '', anchor] of links) {
        const target = path === '' ? new URL(page, ROOT) : new URL(path, new URL(page, ROOT));
        assert.ok(existsSync(target), `${link} leads nowhere`);
        if (anchor !== undefined)
          assert.ok(anchorsOf(readFileSync(target, 'utf8')).includes(anchor), `${link} has no anchor`);
      }
    });
  }
});

/** In a folder of its own, whose package says nothing of modules, as on the desk of somebody who tries it. */
describe('the program of the README', () => {
  let folder: string;
  let model: FakeServer;
  let platform: TestPlatform;
  let reply: AnthropicReply;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'drover-readme-'));
    symlinkSync(fileURLToPath(new URL('node_modules', ROOT)), join(folder, 'node_modules'));
    writeFileSync(join(folder, 'package.json'), '{"name":"ask","version":"1.0.0"}');
    writeFileSync(join(folder, 'ask.ts'), program);
    writeFileSync(join(folder, 'hurry.ts'), program.replace('headers = {', "headers = { prefer: 'wait=1',"));
    model = await startFakeAnthropic(() => reply);
    const env = { ANTHROPIC_API_KEY: 'test', ANTHROPIC_BASE_URL: model.url };
    platform = await openTestPlatform(undefined, { api: true, workers: true, env });
  });
  after(async () => {
    await platform.close();
    await model.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Exit code and output of a program of the folder's packages. */
  async function run(program: string, ...args: string[]): Promise<{ code: number; text: string }> {
    const env = { DROVER_URL: platform.url, DROVER_API_KEY: platform.apiKey };
    const path = join(folder, 'node_modules', program);
    return promisify(execFile)(process.execPath, [path, ...args], { cwd: folder, env, timeout: 60_000 }).then(
      ({ stdout, stderr }) => ({ code: 0, text: stdout + stderr }),
      ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({ code, text: stdout + stderr }),
    );
  }
  const program = /^```ts\n([\s\S]*?)^```$/m.exec(read('README.md'))?.[1] ?? '';
  const ask = () => run('tsx/dist/cli.mjs', 'ask.ts');

  it('has the types that a strict CommonJS project asks for', async () => {
    const strict = ['--strict', '--noUncheckedIndexedAccess', '--exactOptionalPropertyTypes'];
    const commonJs = ['--noEmit', '--module', 'nodenext', '--target', 'es2022', '--types', 'node'];
    assert.deepEqual(await run('typescript/bin/tsc', ...strict, ...commonJs, 'ask.ts'), { code: 0, text: '' });
  });

  it('prints the answer', async () => {
    reply = { content: [{ type: 'text', text: 'It is 1545.81.' }] };
    const { code, text } = await ask();
    assert.match(text, /^It is 1545\.81\. \{ tokens_in: \d+, tokens_out: \d+, cost_usd: [\d.e-]+ \}\n$/);
    assert.equal(code, 0);
  });

  it('prints the failure of a turn, and fails', async () => {
    reply = { error: { status: 401, type: 'authentication_error' } };
    const { code, text } = await ask();
    assert.match(text, /The turn is failed: \S/);
    assert.equal(code, 1);
  });

  it('prints where a turn is that was not answered in time', async () => {
    reply = { error: { status: 503, type: 'api_error' } };
    const { code, text } = await run('tsx/dist/cli.mjs', 'hurry.ts');
    assert.match(text, /^\{\n  turn_id: '[\da-f-]{36}',\n[^]*  status: 'running'/);
    assert.equal(code, 0);
  });
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
