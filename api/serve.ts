import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerOptions, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { limitRate } from '../jobs/backend.ts';
import { LIMITS } from '../core/limits.ts';
import { boundConnections, shareOfConnections } from '../lib/bound-connections.ts';
import { cutOffStalled } from '../lib/cut-off-stalled.ts';
import { listen } from '../lib/listen.ts';
import { takeTurns } from '../lib/take-turns.ts';
import type { Context } from '../modules/governance/context.ts';
import { createLiveSessions } from '../modules/sessions/live-sessions.ts';
import { openLiveStore } from '../modules/sessions/live-store.ts';
import { openRateCounter } from '../modules/tenants/rate-counter.ts';
import { createApp } from './app.ts';
import { createAnswerRoom } from './kit/answer-room.ts';
import { answerFaults, MOST_HEADER_BYTES } from './kit/answer-broken.ts';
import type { Route } from './kit/route.ts';
import { createBodyRoom } from './kit/shared-room.ts';
import type { App } from './kit/state.ts';
import { createSockets, type SocketLimits, type Sockets, type Upgrade } from './kit/sockets.ts';

interface ServeOptions {
  host: string;
  /** 0: any free port. */
  port: number;
  /** Time for a request to arrive with its body; `LIMITS.requestSeconds` by default. */
  requestTimeoutMs?: number;
  /** At the same time; a share of the process's descriptors by default. */
  connections?: number;
  /** For all bodies and messages being read together; `LIMITS.bodyBytesAtOnce` by default. */
  bodyBytesAtOnce?: number | undefined;
  /** For all answers that have not been taken together; `LIMITS.answerBytesAtOnce` by default. */
  answerBytesAtOnce?: number | undefined;
  /** Time for which a client may take nothing of its answer; `LIMITS.streamStallSeconds` by default. */
  stallMs?: number;
  /** WebSocket limits other than those of `LIMITS`. */
  sockets?: Partial<SocketLimits>;
}

export interface RunningApi {
  /** `http://host:port`, with a host that clients on this machine can use. */
  url: string;
  port: number;
  /** Takes no new connections, ends streams, waits `graceMs` for open requests, then cuts them off. */
  close(graceMs: number): Promise<void>;
}

const UPLOAD_MS = LIMITS.uploadSeconds * 1000;
const LINGER_MS = 10_000;

/** Longest interval in ms between checks for requests that take too long. */
const MOST_CHECKING_MS = 5000;

/** The API's port, and the variable that sets it. */
export const portOfApi = ({ port }: Pick<ServeOptions, 'port'>) => ({ port, named: 'PORT' });

/** Serves the API. Rejects if it cannot listen on the address. */
export async function serve(
  context: Context,
  routes: readonly Route[],
  { host, port, requestTimeoutMs = LIMITS.requestSeconds * 1000, ...options }: ServeOptions,
): Promise<RunningApi> {
  const closing = new AbortController();
  const { log } = context;
  const { counter, liveStore, closeStores } = await openStores(context);
  const liveSessions = createLiveSessions(context, liveStore);
  const bodyRoom = createBodyRoom(options.bodyBytesAtOnce);
  const sockets = createSockets({ log, bodyRoom }, closing.signal, options.sockets);
  const answerRoom = createAnswerRoom(options.answerBytesAtOnce);
  const parts = { closing: closing.signal, counter, liveSessions, bodyRoom, answerRoom, sockets };
  const handle = handlerOf(createApp(context, routes, parts), options.stallMs);
  const timeoutOf = timeouts(routes, requestTimeoutMs);
  const answers = new WeakMap<Duplex, ServerResponse>();
  const takeTurn = takeTurns(LIMITS.pipelinedRequests);
  const faults = answerFaults(takeTurn);
  const server = createServer(limitsOf(requestTimeoutMs), (request, response) => {
    // More parts wait for the end of a streamed one than Node takes for sound: it would warn of a leak with each.
    response.setMaxListeners(0);
    takeTurn({ connection: request.socket, response }, () => {
      answers.set(request.socket, response);
      if (faults.cutShort(response)) return;
      holdToTime({ request, response }, timeoutOf(request), server);
      // A kept connection would send requests to a closing server.
      if (closing.signal.aborted) response.shouldKeepAlive = false;
      handle(request, response);
    });
  });
  // Those beyond would be ignored, with what they say of the body or of a proxy; `maxHeaderSize` limits them all.
  server.maxHeadersCount = 0;
  const { open, keep } = boundConnections(server, boundOf(log, options.connections));
  server.on('checkExpectation', (...exchange) => server.emit('request', ...exchange));
  server.on('upgrade', (request, connection, head) =>
    takeTurn({ connection: request.socket }, () => {
      const upgrade = { request, connection, head };
      keep(connection);
      if (!sockets.receive(upgrade, handle)) continueUnchanged(server, upgrade);
    }),
  );
  server.on('clientError', (error, socket) => faults.answer(error, socket, answers.get(socket)));
  await listen(server, { host, port }, portOfApi({ port }).named).catch(async (error: unknown) => {
    await closeStores();
    throw error;
  });
  const address = server.address() as AddressInfo;
  return {
    url: `http://${reachable(host)}:${address.port}`,
    port: address.port,
    async close(graceMs) {
      closing.abort();
      await closeServer(server, { graceMs, sockets, open });
      await closeStores();
    },
  };
}

function limitsOf(requestTimeoutMs: number): ServerOptions {
  return {
    maxHeaderSize: MOST_HEADER_BYTES,
    // Node would refuse these with an empty answer; `checkRequest` does it properly, as for unmet expectations.
    requireHostHeader: false,
    // Set per request below, as uploads may take longer.
    requestTimeout: 0,
    headersTimeout: requestTimeoutMs,
    // Who closes first must be the proxy: a request that it sends meanwhile would be lost.
    keepAliveTimeout: LIMITS.idleConnectionSeconds * 1000,
    connectionsCheckingInterval: Math.min(requestTimeoutMs, MOST_CHECKING_MS),
  };
}

async function openStores({ config, db, log }: Context) {
  const counter = await openRateCounter({
    ...config,
    db,
    onError: warnNowAndThen(log, 'requests are counted in this process alone for now'),
  });
  const liveStore = await openLiveStore({
    ...config,
    onError: warnNowAndThen(log, 'sessions are read from the database for now'),
  });
  return { counter, liveStore, closeStores: () => Promise.all([counter.close(), liveStore.close()]) };
}

/** Also limits the time for which a client may take nothing of its answer. */
function handlerOf(app: App, stallMs = LIMITS.streamStallSeconds * 1000) {
  const handle = app.callback();
  return (request: IncomingMessage, response: ServerResponse): void => {
    // Before all of the answer is there, a request may wait for long.
    response.once('prefinish', () => cutOffStalled(response, stallMs));
    void handle(request, response);
  };
}

function boundOf(log: Context['log'], most = shareOfConnections(LIMITS.connectionSharePercent)) {
  return { most, onClosed: warnNowAndThen(log, 'connections are closed for others') };
}

/** The time for a request to arrive: uploads get more. */
function timeouts(routes: readonly Route[], requestTimeoutMs: number): (request: IncomingMessage) => number {
  const uploads = new Set(
    routes.filter(({ upload }) => upload).map(({ method, path }) => `${method.toUpperCase()} ${path}`),
  );
  return ({ method, url }) =>
    uploads.has(`${method} ${url?.replace(/\?.*/, '')}`) ? Math.max(requestTimeoutMs, UPLOAD_MS) : requestTimeoutMs;
}

/** Limits the time for a body; the rest of a refused one is read for a moment, so that the client gets the answer. */
function holdToTime(
  { request, response }: { request: IncomingMessage; response: ServerResponse },
  timeoutMs: number,
  server: Server,
): void {
  const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
  if (coding === undefined && (length === undefined || length === '0')) return;
  const { socket } = request;
  const end = () => {
    if (response.writableFinished) socket.destroy();
    else server.emit('clientError', Object.assign(new Error('timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), socket);
  };
  let timer = setTimeout(end, timeoutMs);
  response.once('finish', () => {
    if (request.complete) return;
    clearTimeout(timer);
    timer = setTimeout(end, Math.min(timeoutMs, LINGER_MS));
  });
  request.once('close', () => clearTimeout(timer));
}

/** Limits the rate of warnings: a lost connection fails several times a second, and strangers may open many. */
function warnNowAndThen(log: Context['log'], what: string): (error: unknown) => void {
  const warn = limitRate((error) => log.warn({ err: error }, what));
  return (error) => warn(error instanceof Error ? error : new Error(String(error)), what);
}

/**
 * Ignores an upgrade to another protocol, such as HTTP/2, as a server may: parses the request and its body again as a
 * plain one.
 */
function continueUnchanged(server: Server, { request, connection, head }: Upgrade): void {
  const { method, url, httpVersion, rawHeaders } = request;
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2);
    if (name.toLowerCase() !== 'upgrade') lines.push(`${name}: ${value}`);
  }
  connection.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]));
  server.emit('connection', connection);
}

async function closeServer(
  server: Server,
  { graceMs, sockets, open }: { graceMs: number; sockets: Sockets; open: ReadonlySet<Socket> },
): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  const closeIdle = () => {
    server.closeIdleConnections();
    // To Node, a connection on which nothing has come yet is in the middle of a request.
    for (const socket of open) if (socket.bytesRead === 0) socket.destroy();
  };
  closeIdle();
  // Connections that become idle later would stay open for minutes, so they are closed repeatedly.
  const idle = setInterval(closeIdle, 50);
  const deadline = setTimeout(() => {
    sockets.terminate();
    // Node would leave those that wait to be upgraded.
    for (const socket of open) socket.destroy();
  }, graceMs);
  try {
    await closed;
  } finally {
    clearInterval(idle);
    clearTimeout(deadline);
  }
}

function reachable(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1';
  return host.includes(':') ? `[${host}]` : host;
}
