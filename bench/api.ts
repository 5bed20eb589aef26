/** Requests a second of the HTTP API, beside a server that does one prepared statement a request and knows nobody. */
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import pg from 'pg';
import { Agent } from 'undici';
import { ROUTES } from '../api/routes.ts';
import { serve } from '../api/serve.ts';
import { BENCH_KEY, openDrover } from './drover.ts';
import type { Figure } from './figures.ts';
import type { Services } from './services.ts';
import { many, pad } from './work.ts';

const CONCURRENCY = 20;
const WARM_UP = 1000;
const REQUESTS = 1500;
const ROWS = 100;

/** Reads runs in turn and creates runs, which nobody drives meanwhile. */
export async function measureApi(services: Services): Promise<Figure[]> {
  const drover = await openDrover('pure', services);
  const api = await serve(drover.context, ROUTES, { host: '127.0.0.1', port: 0 });
  const ids = await Promise.all(Array.from({ length: ROWS }, () => drover.start()));
  const runs = `${api.url}/v1/agents/${drover.agentId}/runs`;
  let reads = 0;
  const next = (path: (n: number) => string) => () => ({ path: path(reads++ % ROWS) });
  const body = JSON.stringify({ input: { message: pad() } });
  try {
    const answer = await (await fetch(`${runs}/${ids[0]}`, { headers })).text();
    const floor = await withBareServer(services, answer, async (url) => ({
      reads: await requestsPerSecond(next((n) => `${url}${n + 1}`)),
      writes: await requestsPerSecond(() => ({ path: url, body })),
    }));
    const read = await requestsPerSecond(next((n) => `${runs}/${ids[n]}`));
    const writes = await requestsPerSecond(() => ({ path: runs, body }));
    const figure = (what: string, value: number): Figure => ({ part: 'API', what, value, unit: 'requests/s' });
    const besideFloor = (what: string, value: number, of: number): Figure => ({
      ...figure(what, value),
      ratio: { value: value / of, to: 'bare server' },
      goal: '>= 0.5',
    });
    return [
      figure('bare server, one prepared SELECT', floor.reads),
      figure('bare server, one prepared INSERT', floor.writes),
      besideFloor('GET a run', read, floor.reads),
      besideFloor('POST a run', writes, floor.writes),
    ];
  } finally {
    await api.close(1000);
    await drover.close();
  }
}

const headers = { authorization: `Bearer ${BENCH_KEY}`, 'content-type': 'application/json' };

/** Rows that are the answer, read by their keys; and rows that are the requests. */
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

async function requestsPerSecond(next: () => { path: string; body?: string }): Promise<number> {
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
  const startedMs = performance.now();
  await many(REQUESTS, CONCURRENCY, send);
  const seconds = (performance.now() - startedMs) / 1000;
  await agent.close();
  return REQUESTS / seconds;
}
