/**
 * A whole installation in processes of its own: embedded in one (`npm start`), else an API and two workers, on a database
 * and a queue prefix of their own. Its model and the tools' world are the test's.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { ROUTES } from '../../api/routes.ts';
import { assertAsDescribed, request, type Answer, type Call } from './api.ts';
import { createTestServices, type TestServices } from './database.ts';
import { TEST_REDIS_URL, type Mode } from './modes.ts';
import { runProgram, startProcess, type TestProcess } from './processes.ts';
import { startScriptedModel, type ScriptedModel } from './scripted-model.ts';
import { startWorld, type World } from './world.ts';

export interface Installation {
  mode: Mode;
  key: string;
  model: ScriptedModel;
  world: World;
  /** Of an API; of `api` where none is named. */
  url: (name?: string) => string;
  call: (method: string, path: string, call?: Call) => Promise<Answer>;
  /** Names of its processes: `api`, and its workers; in embedded mode `api` is all of them. */
  names: string[];
  process: (name: string) => TestProcess;
  /** What begins with `api` is one. A worker's name is its key at the model, which so tells who asks. */
  start: (name: string, env?: Record<string, string>) => Promise<TestProcess>;
  /** Answers exit code and signal. */
  end: (name: string, signal: 'SIGTERM' | 'SIGKILL') => Promise<[number | null, string | null]>;
  /** Those that do not run. */
  startAll: () => Promise<void>;
  endAll: (signal: 'SIGTERM' | 'SIGKILL') => Promise<void>;
  close: () => Promise<void>;
}

interface InstallationOptions {
  env?: Record<string, string>;
  /** Names of the workers to start; `one` and `two` where it is not given. */
  workers?: string[];
  /** In place of the tests' own; it is migrated first. */
  databaseUrl?: string;
  redisUrl?: string;
}

/** Starts everything and answers when it is ready. */
export async function startInstallation(mode: Mode, options: InstallationOptions = {}): Promise<Installation> {
  const [model, world] = [await startScriptedModel(), await startWorld()];
  const services = await makeServices(mode, options);
  const key = `test-${randomUUID()}`;
  const env = {
    ...services.env,
    DROVER_API_KEY: key,
    ANTHROPIC_BASE_URL: model.url,
    PORT: '0',
    ...options.env,
  };
  const names = ['api', ...(mode === 'embedded' ? [] : (options.workers ?? ['one', 'two']))];
  const processes = new Map<string, TestProcess>();
  const starting = new Set<Promise<unknown>>();
  const find = (name: string) => {
    const found = processes.get(mode === 'embedded' ? 'api' : name);
    assert.ok(found, `${name} does not run`);
    return found;
  };
  const url = (name = 'api') => API_URL.exec(find(name).output())?.[1] ?? '';
  const installation: Installation = {
    mode,
    key,
    model,
    world,
    url,
    async call(method, path, call = {}) {
      const api = find('api');
      const answer = await request(`${url()}${path}`, method, { key, ...call }).catch((cause: unknown) => {
        throw new Error(`${method} ${path} had no answer; the end of the API's output: ${api.output().slice(-2000)}`, {
          cause,
        });
      });
      assertAsDescribed(ROUTES, `${method} ${path}`, answer);
      return answer;
    },
    names,
    process: find,
    async start(name, more = {}) {
      const program = { ...programOf(mode, name), env: { ...env, ANTHROPIC_API_KEY: name, ...more } };
      const begun = startProcess(name, program);
      starting.add(begun);
      const started = await begun.finally(() => starting.delete(begun));
      processes.set(mode === 'embedded' ? 'api' : name, started);
      return started;
    },
    async end(name, signal) {
      const found = find(name);
      processes.delete(mode === 'embedded' ? 'api' : name);
      return found.end(signal);
    },
    async startAll() {
      await Promise.all(names.filter((name) => !processes.has(name)).map((name) => installation.start(name)));
    },
    async endAll(signal) {
      await Promise.all([...processes.keys()].map((name) => installation.end(name, signal)));
    },
    async close() {
      await Promise.allSettled(starting);
      await installation.endAll('SIGKILL');
      await Promise.all([model.close(), world.close()]);
      await services.drop();
    },
  };
  try {
    if (options.databaseUrl !== undefined) await runProgram('scripts/migrate.ts', env);
    await installation.startAll();
    return installation;
  } catch (error) {
    await installation.close();
    throw error;
  }
}

const API_URL = /(?:API +|"url":")(http:\/\/[\d.:]+)/;

function programOf(mode: Mode, name: string): { file: string; ready: RegExp } {
  if (mode === 'embedded') return { file: 'scripts/start.ts', ready: API_URL };
  if (name.startsWith('api')) return { file: 'api/main.ts', ready: API_URL };
  return { file: 'workers/main.ts', ready: /"workers started"/ };
}

async function makeServices(mode: Mode, options: InstallationOptions): Promise<TestServices> {
  if (mode === 'embedded') return createTestServices(mode);
  const { databaseUrl, redisUrl } = options;
  const services =
    databaseUrl === undefined ? await createTestServices(mode, { forWorkers: true }) : servicesAt(databaseUrl);
  const env = {
    ...services.env,
    DROVER_EGRESS_ALLOW: '127.0.0.1',
    ...(mode === 'full' && { REDIS_URL: redisUrl ?? TEST_REDIS_URL ?? '' }),
  };
  return { ...services, env };
}

/** A database that whoever has made it drops. */
function servicesAt(url: string): TestServices {
  const env = {
    DATABASE_URL: url,
    DROVER_SECRET_KEY: 'the tests have no secrets',
    DROVER_QUEUE_PREFIX: `test-${randomUUID()}`,
  };
  return { url, env, drop: async () => undefined };
}
