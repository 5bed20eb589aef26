/** Serves a worker's liveness, readiness and metrics to operators, with the same answers as the API (docs/operations.md). */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { DroverError, forbidden, unauthorized } from '../core/errors.ts';
import { LIMITS } from '../core/limits.ts';
import { limitRate } from '../jobs/backend.ts';
import { boundConnections, shareOfConnections } from '../lib/bound-connections.ts';
import { cutOffStalled } from '../lib/cut-off-stalled.ts';
import { isLocalRequest } from '../lib/is-local-request.ts';
import { listen } from '../lib/listen.ts';
import { newId } from '../lib/new-id.ts';
import { takeTurns } from '../lib/take-turns.ts';
import type { Context } from '../modules/governance/context.ts';
import { readinessOf } from '../modules/platform/readiness-of.ts';
import { scrapeMetrics } from '../modules/platform/scrape-metrics.ts';
import { createAuthenticator, keyIn, type Authenticator } from '../modules/tenants/authenticate-key.ts';
import { problemOf } from '../modules/problem-of.ts';
import { asUnavailable } from '../modules/unavailable.ts';

const REQUEST_TIMEOUT_MS = 10_000;
const CLOSED_FOR_OTHERS = 'connections to the port of the worker are closed for others';

export interface WorkerHealth {
  port: number;
  /** Makes it not ready. */
  stopping: () => void;
  close: () => Promise<void>;
}

interface Answer {
  status: number;
  contentType: string;
  body: string;
  headers?: Record<string, string>;
}

/** Serves them on a port; 0 is any free one. Rejects if it cannot listen there. */
export async function serveHealth(
  context: Context,
  { host, port, connections }: { host: string; port: number; connections?: number },
): Promise<WorkerHealth> {
  const state = { isStopping: false };
  const authenticator = createAuthenticator(context.db);
  const takeTurn = takeTurns(LIMITS.pipelinedRequests);
  const server = createServer((request, response) =>
    takeTurn({ connection: request.socket, response }, () => {
      cutOffStalled(response, LIMITS.streamStallSeconds * 1000);
      answer(context, { request, authenticator, ...state }).then(
        (given) => send(response, given),
        (error: unknown) => send(response, failure(context, request, error)),
      );
    }),
  );
  const warn = limitRate((error) => context.log.warn({ err: error }, CLOSED_FOR_OTHERS));
  boundConnections(server, {
    most: connections ?? shareOfConnections(LIMITS.connectionSharePercent),
    onClosed: (reason) => warn(reason, CLOSED_FOR_OTHERS),
  });
  // None is ignored: they say whether a proxy has passed the request on.
  server.maxHeadersCount = 0;
  server.keepAliveTimeout = LIMITS.idleConnectionSeconds * 1000;
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
  const { request, isStopping } = asked;
  if (request.method !== 'GET' && request.method !== 'HEAD')
    throw new DroverError('method-not-allowed', 405, 'Use GET.');
  switch (pathOf(request)) {
    case '/healthz':
      return json(200, { status: 'ok' });
    case '/readyz':
      return json(200, await readinessOf(context, isStopping));
    case '/metrics':
      await checkOperator(asked);
      return numbers(context);
    default:
      throw new DroverError('not-found', 404, 'A worker answers /healthz, /readyz and /metrics.');
  }
}

async function numbers(context: Context): Promise<Answer> {
  const { contentType, text } = await scrapeMetrics(context);
  return { status: 200, contentType, body: text };
}

/** From other machines only the operator may read the metrics. */
async function checkOperator({ request, authenticator }: Asked): Promise<void> {
  if (isLocalRequest(request)) return;
  const key = keyIn(request.headers.authorization ?? '');
  const caller = key === undefined ? undefined : await authenticator.byKey(key);
  if (!caller) throw unauthorized('A key is needed: Authorization: Bearer <key>.');
  if (!caller.isOperator) throw forbidden("This is for the operator: the default tenant's admin key.");
}

function pathOf({ url = '' }: IncomingMessage): string {
  return url.replace(/\?.*/s, '');
}

function json(status: number, body: unknown): Answer {
  return { status, contentType: 'application/json', body: JSON.stringify(body) };
}

/** The response to an error; unknown errors are logged, not shown. */
function failure({ log }: Context, request: IncomingMessage, thrown: unknown): Answer {
  const [path, requestId] = [pathOf(request), newId()];
  const known = thrown instanceof DroverError ? thrown : asUnavailable(thrown);
  if (!known) log.error({ err: thrown, path, request_id: requestId }, 'a question of an operator was not answered');
  const error = known ?? new DroverError('internal', 500, 'Something went wrong.');
  const headers = {
    ...(error.retryAfterSeconds !== undefined && { 'retry-after': String(error.retryAfterSeconds) }),
    ...(error.status === 401 && { 'www-authenticate': 'Bearer realm="drover"' }),
  };
  const body = problemOf(error, { path, requestId });
  return { ...json(error.status, body), contentType: 'application/problem+json', headers };
}

function send(response: ServerResponse, { status, contentType, body, headers = {} }: Answer): void {
  response.writeHead(status, { 'content-type': contentType, 'x-content-type-options': 'nosniff', ...headers });
  response.end(body);
}
