/** The red team: attacks on a whole platform, each a test and a row of docs/security.md. */
import assert from 'node:assert/strict';
import { request, type Answer, type Call } from './api.ts';
import { startServer, type LocalServer, type SeenRequest } from './echo-server.ts';
import { DOMAIN_MODE } from './modes.ts';
import { openTestPlatform, type TestPlatform } from './platform.ts';
import { readLog, untilRun, type LogEvent } from './runs.ts';
import { startScriptedModel, type ScriptedModel } from './scripted-model.ts';
import { newName } from './new-name.ts';

interface Attack {
  id: string;
  what: string;
  outcome: string;
}

/** Those of the files that have been loaded. */
export const ATTACKS: Attack[] = [];

/** One attack: what is tried, and what must come of it. The test is the proof. */
export function attack(id: string, [what, outcome]: readonly [string, string], work: () => Promise<void> | void): void {
  ATTACKS.push({ id, what, outcome });
  it(`${id} ${what}: ${outcome}`, work);
}

export interface Arena {
  platform: TestPlatform;
  model: ScriptedModel;
  /** A tool's server of the attacker: it answers what `answers` says for the path, else `{"ok":true}`. */
  server: LocalServer;
  answers: Map<string, (request: SeenRequest) => { status?: number; body: string; headers?: Record<string, string> }>;
  call: (method: string, path: string, more?: Call) => Promise<Answer>;
  /** Registers an HTTP tool of the server under its own path; answers its id. */
  addTool: (name: string, fields?: Record<string, unknown>) => Promise<string>;
  /** Runs what the message scripts with an agent that has these tools, to its end or its first wait. */
  play: (message: string, agent: Record<string, unknown>, config?: Record<string, unknown>) => Promise<Played>;
  /** Requests that the tool's path got. */
  reached: (name: string) => SeenRequest[];
  close: () => Promise<void>;
}

export interface Played {
  run: string;
  status: string;
  answer: string;
  log: LogEvent[];
  /** What the model read of tools in its last request. */
  results: string[];
}

/** Opens a platform in the mode of domain suites, with a model that does what it is told and a server that an attacker holds. */
export async function openArena(): Promise<Arena> {
  const answers: Arena['answers'] = new Map();
  const model = await startScriptedModel();
  const server = await startServer((seen, response) => {
    const { status = 200, body, headers = {} } = answers.get(seen.path)?.(seen) ?? { body: '{"ok":true}' };
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
  });
  const env = { ANTHROPIC_API_KEY: 'test', ANTHROPIC_BASE_URL: model.url };
  const platform = await openTestPlatform(DOMAIN_MODE, { workers: true, api: true, env });
  const call: Arena['call'] = (method, path, more = {}) =>
    request(`${platform.url}${path}`, method, { key: platform.apiKey, ...more });
  return {
    platform,
    model,
    server,
    answers,
    call,
    async addTool(name, fields = {}) {
      const transport = { type: 'http', endpoint: `${server.url}/${name}` };
      const made = await call('POST', '/v1/tools', { body: { name, description: 'A tool.', transport, ...fields } });
      assert.equal(made.status, 201, made.text);
      return made.json.id;
    },
    async play(message, agent, config = {}) {
      const made = await call('POST', '/v1/agents', { body: { name: newName('target'), ...agent } });
      assert.equal(made.status, 201, made.text);
      const body = { input: { message }, config };
      const started = await call('POST', `/v1/agents/${made.json.id}/runs`, { body });
      assert.equal(started.status, 202, started.text);
      const run = started.json.run_id as string;
      const states = ['completed', 'failed', 'cancelled', 'awaiting_human'];
      const end = await untilRun({ call }, run, { states });
      const log = await readLog({ call }, run);
      const results = model.asked(message).at(-1)?.results ?? [];
      return { run, status: end.status, answer: end.output?.message ?? '', log, results };
    },
    reached: (name) => server.seen.filter(({ path }) => path === `/${name}` || path.startsWith(`/${name}/`)),
    async close() {
      await platform.close();
      await server.close();
      await model.close();
    },
  };
}
