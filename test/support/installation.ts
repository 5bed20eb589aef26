/**
 * A whole installation in processes of its own: embedded in one (`npm start`), else an API and two workers, on a database
 * and a queue prefix of their own. Its model and the tools' world are the test's.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROUTES } from '../../api/routes.ts';
import { assertAsDescribed, request, type Answer, type Call } from './api.ts';
import { createTestDatabase } from './database.ts';
import { TEST_REDIS_URL, type Mode } from './modes.ts';
import { runProgram, startProcess, type TestProcess } from './processes.ts';
import { startScriptedModel, type ScriptedModel } from './scripted-model.ts';
import { startWorld, type World } from './world.ts';

export interface Installation {
  mode: Mode;
  key: string;
  model: ScriptedModel;
  world: World;
  /** Of the API that was started last. */
  url: () => string;
  call: (method: string, path: string, call?: Call) => Promise<Answer>;
  /** Of those that were started and not ended. The embedded process is both. */
  api: () => TestProcess;
  worker: (name: string) => TestProcess;
  startApi: (env?: Record<string, string>) => Promise<TestProcess>;
  /** Its name is its key at the model, which so tells who asks. */
  startWorker: (name: string, env?: Record<string, string>) => Promise<TestProcess>;
  /** The API and the workers that it began with. */
  startAll: () => Promise<void>;
  /** Ends one process and forgets it. */
  end: (process: TestProcess, signal: 'SIGTERM' | 'SIGKILL') => Promise<[number | null, string | null]>;
  endAll: (signal: 'SIGTERM' | 'SIGKILL') => Promise<void>;
  close: () => Promise<void>;
}

export interface InstallationOptions {
  env?: Record<string, string>;
  /** Names of the workers to start; `one` and `two` where it is not given. */
  workers?: string[];
  /** In place of the tests' own. */
  databaseUrl?: string;
  redisUrl?: string;
}

/** Starts everything and answers when it is ready. */
export async function startInstallation(mode: Mode, options: InstallationOptions = {}): Promise<Installation> {
  const [model, world] = [await startScriptedModel(), await startWorld()];
  const place = await makePlace(mode, options);
  const key = `test-${randomUUID()}`;
  const env = {
    ...place.env,
    DROVER_API_KEY: key,
    ANTHROPIC_BASE_URL: model.url,
    PORT: '0',
    ...options.env,
  };
  const processes = new Map<string, TestProcess>();
  const starting = new Set<Promise<unknown>>();
  const start = async (name: string, file: string, more: Record<string, string>) => {
    const ready = file === 'workers/main.ts' ? /"workers started"/ : /(API +|"url":")http:\/\/[\d.:]+/;
    const begun = startProcess(name, { file, env: { ...env, ANTHROPIC_API_KEY: name, ...more }, ready });
    starting.add(begun);
    const started = await begun.finally(() => starting.delete(begun));
    processes.set(name, started);
    return started;
  };
  const find = (name: string) => {
    const found = processes.get(mode === 'embedded' ? 'api' : name);
    assert.ok(found, `${name} does not run`);
    return found;
  };
  const url = () => /(?:API +|"url":")(http:\/\/[\d.:]+)/.exec(find('api').output())?.[1] ?? '';
  const end = async (process: TestProcess, signal: 'SIGTERM' | 'SIGKILL') => {
    processes.delete(process.name);
    return process.end(signal);
  };
  const endAll = async (signal: 'SIGTERM' | 'SIGKILL') => {
    await Promise.all([...processes.values()].map((each) => end(each, signal)));
  };
  const installation: Installation = {
    mode,
    key,
    model,
    world,
    url,
    async call(method, path, call = {}) {
      const answer = await request(`${url()}${path}`, method, { key, ...call });
      assertAsDescribed(ROUTES, `${method} ${path}`, answer);
      return answer;
    },
    api: () => find('api'),
    worker: find,
    startApi: (more = {}) => start('api', mode === 'embedded' ? 'scripts/start.ts' : 'api/main.ts', more),
    startWorker: (name, more = {}) => start(name, 'workers/main.ts', more),
    async startAll() {
      const names = mode === 'embedded' ? [] : (options.workers ?? ['one', 'two']);
      await Promise.all([installation.startApi(), ...names.map((name) => installation.startWorker(name))]);
    },
    end,
    endAll,
    async close() {
      await Promise.allSettled(starting);
      await endAll('SIGKILL');
      await Promise.all([model.close(), world.close()]);
      await place.drop();
    },
  };
  try {
    if (mode !== 'embedded') await runProgram('scripts/migrate.ts', env);
    await installation.startAll();
    return installation;
  } catch (error) {
    await installation.close();
    throw error;
  }
}

async function makePlace(
  mode: Mode,
  options: InstallationOptions,
): Promise<{ env: Record<string, string>; drop: () => Promise<unknown> }> {
  if (mode === 'embedded') {
    const dir = await mkdtemp(join(tmpdir(), 'drover-test-'));
    return { env: { DROVER_DATA_DIR: dir }, drop: () => rm(dir, { recursive: true, force: true }) };
  }
  const database =
    options.databaseUrl === undefined
      ? await createTestDatabase()
      : { url: options.databaseUrl, drop: async () => undefined };
  return {
    env: {
      DATABASE_URL: database.url,
      DROVER_SECRET_KEY: 'the tests have no secrets',
      DROVER_EGRESS_ALLOW: '127.0.0.1',
      ...(mode === 'full' && { REDIS_URL: options.redisUrl ?? TEST_REDIS_URL ?? '' }),
      DROVER_QUEUE_PREFIX: `test-${randomUUID()}`,
    },
    drop: database.drop,
  };
}
