import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import type * as Config from '../config.ts';
import type * as Models from '../llm/models.ts';
import type * as Gate from '../modules/governance/gate.ts';
import { createEgress } from '../tools/egress.ts';
import type * as Executing from '../tools/execute-tool.ts';
import { createArgumentValidator } from '../tools/validate-arguments.ts';
import { startServer, type LocalServer } from './support/echo-server.ts';
import { governanceOf } from './support/governance.ts';
import type * as TestPlatforms from './support/platform.ts';
import { ROOT } from './support/repository.ts';
import { startScriptedModel } from './support/scripted-model.ts';
import { ask, modelRequest } from './support/model-request.ts';
import { attemptOf, briefly, outputOf, toolOf } from './support/tool-attempt.ts';
import { waitUntil } from './support/wait-until.ts';
import { approvalsOfRun } from './support/queries/approvals.ts';

const { validateArguments } = createArgumentValidator();

const root = fileURLToPath(ROOT);
const guide = readFileSync(join(root, 'docs/extending.md'), 'utf8');
const blocks = [...guide.matchAll(/^```(ts|diff) (\S+)\n([\s\S]*?)^```$/gm)].map(
  ([, kind = '', path = '', text = '']) => ({ kind, path, text }),
);
const LEFT_OUT = ['node_modules', 'dist', '.git', '.drover', 'bench', 'docs'];

/** What the guide says, done to a copy of the project. */
describe('The guide to extending', () => {
  let copy: string;
  let problems: string;
  before(async () => {
    copy = mkdtempSync(join(tmpdir(), 'drover-extending-'));
    cpSync(root, copy, { recursive: true, filter: (path) => isNeeded(relative(root, path)) });
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    for (const { kind, path, text } of blocks) {
      const file = join(copy, path);
      writeFileSync(file, kind === 'ts' ? text : patched(readFileSync(file, 'utf8'), text), {
        flag: kind === 'ts' ? 'wx' : 'w',
      });
    }
    problems = await compile(copy);
  });
  after(() => rmSync(copy, { recursive: true, force: true }));

  const load = async <T>(path: string): Promise<T> =>
    (await import(pathToFileURL(join(copy, 'built', path.replace(/ts$/, 'js'))).href)) as T;

  it('needs one file for each extension, and one line with its import', () => {
    assert.deepEqual(
      blocks.map(({ kind }) => kind),
      ['ts', 'diff', 'ts', 'diff', 'ts', 'diff', 'ts', 'diff'],
    );
    for (const { kind, path, text } of blocks) {
      if (kind === 'diff') assert.equal(text.match(/^\+/gm)?.length, 2, path);
    }
  });

  it('has code that compiles with the rest', () => assert.equal(problems, ''));

  describe('with its transport', () => {
    let server: LocalServer;
    before(async () => {
      server = await startServer(({ body, path }, response) => {
        const { id, method, params } = JSON.parse(body) as { id: string; method: string; params: { of: string } };
        const said = method === 'count' ? { result: `7 ${params.of}` } : { error: { code: -32601, message: 'no' } };
        response.writeHead(path === '/broken' ? 503 : 200);
        response.end(JSON.stringify({ jsonrpc: '2.0', id, ...said }));
      });
    });
    after(() => server.close());

    it('calls tools, with secrets and without showing them, and tells failures apart', async () => {
      const { createTools } = await load<typeof Executing>('tools/execute-tool.ts');
      const tools = createTools({
        egress: createEgress({ allow: [], allowLoopback: true }),
        stdioCommands: [],
        readSecrets: async () => new Map([['k', { value: 'c4nary-value', hosts: null }]]),
      });
      const headers = { authorization: 'Bearer {{secret:k}}' };
      const call = (method: string, args = {}, path = '') => {
        const transport = { type: 'json_rpc', endpoint: `${server.url}${path}`, method, headers };
        return tools.execute(toolOf(transport as never), attemptOf(args));
      };
      assert.equal(outputOf(await call('count', { of: 'c4nary-value' })), '7 [secret]');
      assert.equal(server.seen[0]?.headers.authorization, 'Bearer c4nary-value');
      assert.equal(briefly(await call('nothing')), 'error rpc-32601');
      assert.equal(briefly(await call('count', {}, '/broken')), 'lost http-503');
      await tools.close();
    });
  });

  it('has a provider that is asked by name, whose key and address come from the environment', async () => {
    const { loadConfig } = await load<typeof Config>('config.ts');
    const { createModels } = await load<typeof Models>('llm/models.ts');
    const server = await startServer(({ body }, response) => {
      const tool_calls = [{ function: { name: 'look', arguments: { at: 'it' } } }];
      const isFirst = (JSON.parse(body) as { messages: { role: string }[] }).messages.at(-1)?.role === 'user';
      const message = isFirst ? { content: '', tool_calls } : { content: 'seen' };
      response.writeHead(body.includes('broken') ? 429 : 200);
      response.end(
        JSON.stringify({ model: 'qwen3', message, done_reason: 'stop', prompt_eval_count: 7, eval_count: 3 }),
      );
    });
    const env = { OLLAMA_API_KEY: 'k', OLLAMA_BASE_URL: server.url, DROVER_MODEL_LIMITS: 'ollama=5' };
    const { model, stream, rates, provider } = createModels(loadConfig(env)).resolve('ollama/qwen3');
    assert.deepEqual([provider, model, rates?.requestsPerMinute], ['ollama', 'qwen3', 5]);
    const first = await ask(stream, modelRequest({ model }));
    const [block] = first.response.content;
    assert.ok(block?.type === 'tool_use');
    assert.deepEqual([block.name, block.input, first.response.stopReason], ['look', { at: 'it' }, 'tool_use']);
    const messages = [
      { role: 'user' as const, content: [{ type: 'text' as const, text: 'look' }] },
      { role: 'assistant' as const, content: first.response.content },
      { role: 'user' as const, content: [{ type: 'tool_result' as const, tool_use_id: block.id, content: 'blue' }] },
    ];
    const { response } = await ask(stream, modelRequest({ model, messages }));
    assert.deepEqual([response.content, response.usage.input], [[{ type: 'text', text: 'seen' }], 7]);
    assert.equal(server.seen[0]?.headers.authorization, 'Bearer k');
    await assert.rejects(ask(stream, modelRequest({ model, system: 'broken' })), { kind: 'rate_limited' });
    await server.close();
  });

  it('has a stage that a call must pass', async () => {
    const { gate, STAGES } = await load<typeof Gate>('modules/governance/gate.ts');
    const decide = (text: string) =>
      gate({
        governance: governanceOf([{ when: 'true', decision: 'allow' }]),
        agent: { id: 'agent-1', name: 'a' },
        run: { id: 'run-1' },
        definition: { name: 'a' },
        autonomyLevel: 3,
        userId: '',
        tools: new Map([['send', toolOf({ type: 'builtin' }, 'send')]]),
        name: 'send',
        arguments: { deep: [{ text }] },
        callsInTurn: 0,
        usedUp: undefined,
        validate: validateArguments,
      });
    const refused = decide('from 4111 1111 1111 1111, please');
    assert.deepEqual([refused.kind, refused.by.stage], ['deny', 'card_numbers']);
    assert.equal(decide('from 4111 1111 1111 1112, please').kind, 'allow');
    assert.ok(STAGES.includes('card_numbers'));
  });

  it('has a channel that tells of an approval, and a transport and a stage that the API knows', async () => {
    const { openTestPlatform } = await load<typeof TestPlatforms>('test/support/platform.ts');
    const model = await startScriptedModel();
    const phone = await startServer((_request, response) => response.end());
    const env = { ANTHROPIC_API_KEY: 'test', ANTHROPIC_BASE_URL: model.url };
    const platform = await openTestPlatform(undefined, { workers: true, api: true, env });
    const post = async (path: string, body: unknown) => {
      const headers = { authorization: `Bearer ${platform.apiKey}`, 'content-type': 'application/json' };
      const response = await fetch(`${platform.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
      assert.ok(response.ok, `${path}: ${response.status} ${await response.clone().text()}`);
      return (await response.json()) as Record<string, string>;
    };
    const url = `ntfy://127.0.0.1:${phone.port}/our-approvals`;
    await post('/v1/webhooks', { url, events: ['approval.requested'] });
    const transport = { type: 'json_rpc', endpoint: 'https://rpc.example', method: 'pay' };
    await post('/v1/tools', { name: 'pay', description: 'Pays.', transport, risk_level: 'WRITE_HIGH_RISK' });
    const agent = await post('/v1/agents', { name: 'payer', tools: ['pay'] });
    const decided = await post('/v1/policies/evaluate', { tool: 'pay', arguments: { card: '4111111111111111' } });
    assert.equal(decided['stage'], 'card_numbers');

    const run = await post(`/v1/agents/${agent['id']}/runs`, { input: { message: 'call pay {"amount":7}' } });
    await waitUntil('the phone rings', () => phone.seen.length > 0);
    const [approval] = await approvalsOfRun(platform, String(run['run_id']));
    const [rang] = phone.seen;
    assert.deepEqual([rang?.path, rang?.headers['title']], ['/our-approvals', 'Drover: approval.requested']);
    assert.match(rang?.body ?? '', new RegExp(`^"pay" waits for you, for 24 hours: .* show ${approval?.id}$`));
    await platform.close();
    await phone.close();
    await model.close();
  });
});

function isNeeded(path: string): boolean {
  const [top = '', second] = path.split('/');
  return !LEFT_OUT.includes(top) && (top !== 'test' || second === undefined || second === 'support');
}

/** Compiles the copy into its folder `built`; answers what the compiler says against it. */
async function compile(copy: string): Promise<string> {
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const built = ['--noEmit', 'false', '--rootDir', copy, '--outDir', join(copy, 'built')];
  const problems = await promisify(execFile)(process.execPath, [tsc, '-p', copy, ...built]).then(
    () => '',
    (error: { stdout: string }) => error.stdout,
  );
  cpSync(join(copy, 'db/functions'), join(copy, 'built/db/functions'), { recursive: true });
  return problems;
}

/** The text after a change: hunks of kept, removed and added lines, each at the only place where it fits. */
function patched(text: string, diff: string): string {
  return diff.split('@@\n').reduce((now, hunk) => {
    const lines = hunk.split('\n').filter((line) => line !== '');
    const side = (other: string) =>
      `\n${lines
        .filter((line) => !line.startsWith(other))
        .map((line) => `${line.slice(1)}\n`)
        .join('')}`;
    const parts = `\n${now}`.split(side('+'));
    assert.equal(parts.length, 2, `this has no place, or several:\n${hunk}`);
    return parts.join(side('-')).slice(1);
  }, text);
}
