/** Requests a second of the HTTP API, beside a server that only answers. */
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { Agent } from 'undici';
import { ROUTES } from '../api/routes.ts';
import { serve } from '../api/serve.ts';
import { BENCH_KEY, openDrover } from './drover.ts';
import type { Figure } from './figures.ts';
import type { Services } from './services.ts';
import { many, pad } from './work.ts';

const CONCURRENCY = 20;
const REQUESTS = 500;

/** Reads one run and creates runs, which nobody drives meanwhile. */
export async function measureApi(services: Services): Promise<Figure[]> {
  const drover = await openDrover('pure', services);
  const api = await serve(drover.context, ROUTES, { host: '127.0.0.1', port: 0 });
  const run = await drover.start();
  const runs = `${api.url}/v1/agents/${drover.agentId}/runs`;
  const one = { path: `${runs}/${run}` };
  const body = JSON.stringify({ input: { message: pad() } });
  try {
    const answer = await (await fetch(one.path, { headers })).text();
    const floor = await withBareServer(answer, (url) => requestsPerSecond(() => ({ path: url })));
    const reads = await requestsPerSecond(() => one);
    const writes = await requestsPerSecond(() => ({ path: runs, body }));
    const figure = (what: string, value: number): Figure => ({
      part: 'API',
      what,
      value,
      unit: 'requests/s',
      ratio: { value: value / floor, to: 'bare server' },
    });
    return [figure('bare HTTP server', floor), figure('GET a run', reads), figure('POST a run', writes)];
  } finally {
    await api.close(1000);
    await drover.close();
  }
}

const headers = { authorization: `Bearer ${BENCH_KEY}`, 'content-type': 'application/json' };

async function withBareServer<T>(answer: string, work: (url: string) => Promise<T>): Promise<T> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(answer);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    return await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  } finally {
    server.closeAllConnections();
    server.close();
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
  await many(100, CONCURRENCY, send);
  const startedMs = performance.now();
  await many(REQUESTS, CONCURRENCY, send);
  const seconds = (performance.now() - startedMs) / 1000;
  await agent.close();
  return REQUESTS / seconds;
}
