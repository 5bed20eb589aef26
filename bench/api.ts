/** Throughput of the HTTP API, compared with a bare server: one prepared statement a request, no authentication. */
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import pg from 'pg';
import { Agent } from 'undici';
import { ROUTES } from '../api/routes.ts';
import { serve } from '../api/serve.ts';
import { costOfEach, cpuMs, createMeter, type Costs, type Meter } from './costs.ts';
import { BENCH_KEY, openDrover } from './drover.ts';
import type { Figure } from './figures.ts';
import type { Services } from './services.ts';
import { many, pad } from './work.ts';

const CONCURRENCY = 20;
const WARM_UP = 1000;
const REQUESTS = 1500;
const ROWS = 100;

/** One kind of request: rate per second, and costs of each, including its client's share in this process. */
interface Load {
  perSecond: number;
  costs: Costs;
}

/** Reads runs in rotation, and creates runs that nobody drives meanwhile. */
export async function measureApi(services: Services): Promise<Figure[]> {
  const drover = await openDrover('pure', services);
  const api = await serve(drover.context, ROUTES, { host: '127.0.0.1', port: 0 });
  const meter = await createMeter(services);
  const ids = await Promise.all(Array.from({ length: ROWS }, () => drover.start()));
  const runs = `${api.url}/v1/agents/${drover.agentId}/runs`;
  let reads = 0;
  const next = (path: (n: number) => string) => () => ({ path: path(reads++ % ROWS) });
  const body = JSON.stringify({ input: { message: pad() } });
  try {
    const answer = await (await fetch(`${runs}/${ids[0]}`, { headers })).text();
    const floor = await withBareServer(services, answer, async (url) => ({
      reads: await load(
        meter,
        next((n) => `${url}${n + 1}`),
      ),
      writes: await load(meter, () => ({ path: url, body })),
    }));
    const read = await load(
      meter,
      next((n) => `${runs}/${ids[n]}`),
    );
    const write = await load(meter, () => ({ path: runs, body }));
    return [
      ...figuresOf('bare server, one prepared SELECT', floor.reads),
      ...figuresOf('bare server, one prepared INSERT', floor.writes),
      ...figuresOf('GET a run', read, floor.reads),
      ...figuresOf('POST a run', write, floor.writes),
    ];
  } finally {
    await meter.close();
    await api.close(1000);
    await drover.close();
  }
}

function figuresOf(what: string, { perSecond, costs }: Load, floor?: Load): Figure[] {
  const figure = (name: string, value: number, unit: string): Figure => ({ part: 'API', what: name, value, unit });
  const beside = (value: number, goal?: string) =>
    floor && { ratio: { value, to: 'bare server' }, ...(goal && { goal }) };
  return [
    { ...figure(what, perSecond, 'requests/s'), ...beside(perSecond / (floor?.perSecond ?? 1), '>= 0.5') },
    { ...figure(`${what}: CPU`, cpuMs(costs), 'ms'), ...beside(cpuMs(costs) / (floor ? cpuMs(floor.costs) : 1)) },
    figure(`${what}: of it node, with the client`, costs.nodeMs, 'ms'),
    figure(`${what}: of it Postgres`, costs.postgresMs, 'ms'),
    figure(`${what}: WAL`, costs.walKb, 'KB'),
    figure(`${what}: transactions`, costs.transactions, 'each'),
  ];
}

const headers = { authorization: `Bearer ${BENCH_KEY}`, 'content-type': 'application/json' };

/** Runs `work` against a server that reads stored answers by key, and stores requests. */
async function withBareServer<T>(services: Services, answer: string, work: (url: string) => Promise<T>): Promise<T> {
  const pool = new pg.Pool({ connectionString: services.databaseUrl, max: CONCURRENCY });
  await pool.query('create table bare (id bigserial primary key, body jsonb not null)');
  await pool.query('insert into bare (body) select $1::jsonb from generate_series(1, $2)', [answer, ROWS]);
  const read = async (id: number) => {
    const { rows } = await pool.query({ name: 'read', text: 'select body from bare where id = $1', values: [id] });
    return JSON.stringify(rows[0].body);
  };
  const write = async (request: IncomingMessage) => {
    let text = '';
    for await (const chunk of request) text += String(chunk);
    const { rows } = await pool.query({
      name: 'write',
      text: 'insert into bare (body) values ($1) returning id',
      values: [text],
    });
    return JSON.stringify(rows[0]);
  };
  const handle: RequestListener = (request, response) => {
    void (request.method === 'GET' ? read(Number(request.url?.slice(1))) : write(request)).then((text) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(text),
    );
  };
  const server = createServer(handle);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    return await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  } finally {
    server.closeAllConnections();
    server.close();
    await pool.end();
  }
}

async function load(meter: Meter, next: () => { path: string; body?: string }): Promise<Load> {
  const agent = new Agent({ connections: CONCURRENCY });
  const send = async () => {
    const { path, body } = next();
    const { origin, pathname } = new URL(path);
    const method = body === undefined ? 'GET' : 'POST';
    const answer = await agent.request({ origin, path: pathname, method, headers, ...(body && { body }) });
    await answer.body.dump();
    if (answer.statusCode >= 300) throw new Error(`${method} ${pathname} answered ${answer.statusCode}`);
  };
  await many(WARM_UP, CONCURRENCY, send);
  const before = await meter.read();
  const startedMs = performance.now();
  await many(REQUESTS, CONCURRENCY, send);
  const seconds = (performance.now() - startedMs) / 1000;
  const costs = costOfEach(before, await meter.read(), REQUESTS);
  await agent.close();
  return { perSecond: REQUESTS / seconds, costs };
}
