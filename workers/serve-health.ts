/** What an operator's machines ask of a worker process: alive, ready, numbers. As the API answers them (docs/operations.md). */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isLocalRequest } from '../lib/is-local-request.ts';
import { listen } from '../lib/listen.ts';
import type { Context } from '../modules/governance/context.ts';
import { checkReadiness } from '../modules/platform/check-readiness.ts';
import { scrapeMetrics } from '../modules/platform/scrape-metrics.ts';
import { createAuthenticator, type Authenticator } from '../modules/tenants/authenticate-key.ts';

const REQUEST_TIMEOUT_MS = 10_000;

export interface WorkerHealth {
  port: number;
  /** From now on it is not ready. */
  stopping: () => void;
  close: () => Promise<void>;
}

interface Answer {
  status: number;
  contentType: string;
  body: string;
  headers?: Record<string, string>;
}

/** Serves them on a port; 0 is any free one. Rejects where it cannot be listened on. */
export async function serveHealth(
  context: Context,
  { host, port }: { host: string; port: number },
): Promise<WorkerHealth> {
  const state = { isStopping: false };
  const authenticator = createAuthenticator(context.db);
  const server = createServer((request, response) => {
    answer(context, { request, authenticator, ...state }).then(
      (given) => send(response, given),
      (error: unknown) => {
        context.log.error({ err: error, path: request.url }, 'a question of an operator was not answered');
        send(response, problem(500, 'internal', 'Something went wrong.'));
      },
    );
  });
  server.requestTimeout = REQUEST_TIMEOUT_MS;
  server.headersTimeout = REQUEST_TIMEOUT_MS;
  await listen(server, { host, port }, 'DROVER_WORKER_PORT');
  const { port: actual } = server.address() as AddressInfo;
  context.log.info({ host, port: actual }, 'worker serves /healthz, /readyz and /metrics');
  return {
    port: actual,
    stopping: () => {
      state.isStopping = true;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

interface Asked {
  request: IncomingMessage;
  authenticator: Authenticator;
  isStopping: boolean;
}

async function answer(context: Context, asked: Asked): Promise<Answer> {
  const { request } = asked;
  if (request.method !== 'GET' && request.method !== 'HEAD') return problem(405, 'method-not-allowed', 'Use GET.');
  switch (request.url?.replace(/\?.*/s, '')) {
    case '/healthz':
      return json(200, { status: 'ok' });
    case '/readyz':
      return readiness(context, asked.isStopping);
    case '/metrics':
      return (await refusal(asked)) ?? numbers(context);
    default:
      return problem(404, 'not-found', 'A worker answers /healthz, /readyz and /metrics.');
  }
}

async function readiness(context: Context, isStopping: boolean): Promise<Answer> {
  const checks = await checkReadiness(context);
  const faults = Object.entries(checks).filter(([, found]) => found !== 'ok');
  if (isStopping) faults.push(['process', 'stopping']);
  if (faults.length === 0) return json(200, { status: 'ready', checks });
  const detail = `Not ready: ${faults.map(([name, found]) => `${name} ${found}`).join(', ')}.`;
  const body = { status: 503, code: 'not-ready', detail, checks };
  return { ...json(503, body), contentType: 'application/problem+json', headers: { 'retry-after': '2' } };
}

async function numbers(context: Context): Promise<Answer> {
  const { contentType, text } = await scrapeMetrics(context);
  return { status: 200, contentType, body: text };
}

/** From elsewhere than this machine the operator alone may see the numbers. */
async function refusal({ request, authenticator }: Asked): Promise<Answer | undefined> {
  if (isLocalRequest(request)) return undefined;
  const key = /^Bearer +([\x21-\x7e]{1,1000})$/i.exec(request.headers.authorization ?? '')?.[1];
  const caller = key === undefined ? undefined : await authenticator.byKey(key);
  if (!caller) {
    const headers = { 'www-authenticate': 'Bearer realm="drover"' };
    return { ...problem(401, 'unauthorized', 'A key is needed: Authorization: Bearer <key>.'), headers };
  }
  if (caller.isOperator) return undefined;
  return problem(403, 'forbidden', "This is for the operator: the default tenant's admin key.");
}

function json(status: number, body: unknown): Answer {
  return { status, contentType: 'application/json', body: JSON.stringify(body) };
}

function problem(status: number, code: string, detail: string): Answer {
  return { ...json(status, { status, code, detail }), contentType: 'application/problem+json' };
}

function send(response: ServerResponse, { status, contentType, body, headers = {} }: Answer): void {
  response.writeHead(status, { 'content-type': contentType, 'x-content-type-options': 'nosniff', ...headers });
  response.end(body);
}
