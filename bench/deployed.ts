/**
 * Drover as deployed: HTTP, an API and two workers as in the Procfile, a streaming model server. Measures the cost of a run in
 * each process, without the client and the model server, which share this process.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { Agent } from 'undici';
import { loadConfig } from '../config.ts';
import { migrate } from '../db/migrate.ts';
import { cpuOfProcess, createMeter } from './costs.ts';
import { BENCH_KEY } from './drover.ts';
import type { Figure } from './figures.ts';
import type { Services } from './services.ts';
import { many, pad, TOOL_CALLS } from './work.ts';

/** A thousand for each worker, as in the steps: V8 compiles programs as they run. */
const WARM_UP = 2000;
const RUNS = 400;
const CONCURRENCY = 20;
const ALONE = 30;
const WORKERS = 2;
const START_MS = 60_000;
const PROGRAMS = new URL('../', import.meta.url);

/** Runs with five calculator calls; each turn is requested synchronously. */
export async function measureDeployed(services: Services): Promise<Figure[]> {
  const model = await startModel();
  const env = environment(services, model);
  await migrate(loadConfig(env));
  const meter = await createMeter(services);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const children = [start('api', { ...env, PORT: String(port) })];
  for (let n = 0; n < WORKERS; n++) children.push(start('worker', env));
  const client = new Agent({ connections: CONCURRENCY });
  try {
    await ready(url, children);
    const run = await makeRunner(url, client);
    await many(WARM_UP, CONCURRENCY, run);
    await analyze(services);
    const alone: number[] = [];
    for (let n = 0; n < ALONE; n++) {
      const startedMs = performance.now();
      await run();
      alone.push(performance.now() - startedMs);
    }
    const cpu = () => children.map(({ pid }) => cpuOfProcess(Number(pid)));
    const [before, processes] = [await meter.read(), cpu()];
    const startedMs = performance.now();
    await many(RUNS, CONCURRENCY, run);
    const seconds = (performance.now() - startedMs) / 1000;
    const spent = cpu().map((ms, n) => (ms - (processes[n] ?? 0)) / RUNS);
    const after = await meter.read();
    const [api = Number.NaN, ...workers] = spent;
    const worker = workers.reduce((sum, ms) => sum + ms, 0);
    const postgres = (after.postgresMs - before.postgresMs) / RUNS;
    const redis = (after.redisMs - before.redisMs) / RUNS;
    const median = alone.toSorted((a, b) => a - b)[Math.floor(ALONE / 2)] ?? Number.NaN;
    return [
      { ...figure(`runs, ${CONCURRENCY} at a time`, RUNS / seconds, 'runs/s'), goal: '>= 80' },
      figure('a run that is alone, median', median, 'ms'),
      { ...figure('CPU of a run', api + worker + postgres + redis, 'ms'), goal: '<= 45' },
      figure('of it the API', api, 'ms'),
      figure(`of it ${WORKERS} workers`, worker, 'ms'),
      figure('of it Postgres', postgres, 'ms'),
      figure('of it Redis', redis, 'ms'),
    ];
  } finally {
    await client.close();
    for (const child of children) child.kill('SIGTERM');
    await Promise.all(children.map(async (child) => hasEnded(child) || once(child, 'exit')));
    await meter.close();
    model.closeAllConnections();
    model.close();
  }
}

/** Updates statistics. Postgres does so every minute, too late for this measurement, which would use plans made for empty tables. */
async function analyze({ databaseUrl }: Services): Promise<void> {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  await client.query('analyze');
  await client.end();
}

function environment(services: Services, model: Server): Record<string, string> {
  return {
    DATABASE_URL: services.databaseUrl,
    REDIS_URL: services.redisUrl,
    DROVER_SECRET_KEY: 'bench',
    DROVER_API_KEY: BENCH_KEY,
    // Unique: leftover workers of a killed benchmark would take its jobs.
    DROVER_QUEUE_PREFIX: `bench-deployed-${process.pid}`,
    ANTHROPIC_API_KEY: 'bench',
    ANTHROPIC_BASE_URL: `http://127.0.0.1:${(model.address() as AddressInfo).port}`,
    LOG_LEVEL: 'warn',
  };
}

/** Starts a process of the Procfile, with its flags. */
function start(name: 'api' | 'worker', env: Record<string, string>): ChildProcess {
  const line = new RegExp(`^${name}: (?:env HOST=\\S+ )?node (.*) dist/(\\S+)$`, 'm').exec(
    readFileSync('Procfile', 'utf8'),
  );
  const [, flags = '', program = ''] = line ?? [];
  const path = fileURLToPath(new URL(program, PROGRAMS));
  return spawn(process.execPath, [...flags.split(' '), path], {
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

async function ready(url: string, children: readonly ChildProcess[]): Promise<void> {
  const endsAtMs = performance.now() + START_MS;
  while (!(await isReady(url))) {
    if (children.some(hasEnded)) throw new Error('a process of the bench has ended');
    if (performance.now() > endsAtMs) throw new Error('the API was not ready in a minute');
    await sleep(100);
  }
}

async function isReady(url: string): Promise<boolean> {
  const answered = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(2000) }).catch(() => undefined);
  await answered?.body?.cancel();
  return answered?.ok === true;
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

/** A port that was just free. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

function figure(what: string, value: number, unit: string): Figure {
  return { part: 'deployed', what, value, unit };
}

async function makeRunner(url: string, dispatcher: Agent): Promise<() => Promise<void>> {
  const post = async (path: string, body: unknown): Promise<Record<string, unknown>> => {
    const response = await dispatcher.request({
      origin: url,
      path,
      method: 'POST',
      headers: { authorization: `Bearer ${BENCH_KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const json = (await response.body.json()) as Record<string, unknown>;
    if (response.statusCode >= 300)
      throw new Error(`POST ${path} answered ${response.statusCode}: ${JSON.stringify(json)}`);
    return json;
  };
  const { id } = await post('/v1/agents', { name: 'bench', tools: ['calculator'] });
  return async () => {
    const run = await post(`/v1/agents/${String(id)}/runs`, {});
    const turn = await post(`/v1/agents/${String(id)}/runs/${String(run['run_id'])}/turns`, {
      input: { message: pad() },
    });
    const output = turn['output'] as { status?: string };
    if (output.status !== 'complete') throw new Error(`a turn ended as ${String(output.status)}`);
  };
}

/** A minimal Messages API of Anthropic: five calculator calls, then an answer in ten pieces. */
async function startModel(): Promise<Server> {
  const server = createServer((request, response) => void answer(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  const { messages, tools } = JSON.parse(text) as { messages: unknown[]; tools?: { name: string }[] };
  const calls = (messages.length - 1) / 2;
  const name = tools?.[0]?.name ?? '';
  const isLast = calls >= TOOL_CALLS || name !== 'calculator';
  const input = name === 'calculator' ? { expression: `${calls} + ${calls + 1}` } : { title: 'A title' };
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const send = (type: string, data: object) =>
    response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
  const usage = { input_tokens: 300, output_tokens: 250 };
  const message = {
    id: 'msg',
    type: 'message',
    role: 'assistant',
    model: 'claude',
    content: [],
    stop_reason: null,
    usage,
  };
  send('message_start', { message });
  if (isLast && name === 'calculator') {
    send('content_block_start', { index: 0, content_block: { type: 'text', text: '' } });
    const words = pad();
    for (let at = 0; at < words.length; at += words.length / 10)
      send('content_block_delta', {
        index: 0,
        delta: { type: 'text_delta', text: words.slice(at, at + words.length / 10) },
      });
  } else {
    const block = { type: 'tool_use', id: `toolu_${calls}`, name, input: {} };
    send('content_block_start', { index: 0, content_block: block });
    const delta = { type: 'input_json_delta', partial_json: JSON.stringify(input) };
    send('content_block_delta', { index: 0, delta });
  }
  send('content_block_stop', { index: 0 });
  const stop_reason = isLast && name === 'calculator' ? 'end_turn' : 'tool_use';
  send('message_delta', { delta: { stop_reason, stop_sequence: null }, usage });
  send('message_stop', {});
  response.end();
}
