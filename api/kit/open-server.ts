/** The server of the API, which listens before there is anything to serve: a mistake in its address ends the start first of all. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { DroverError } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { listen } from '../../lib/listen.ts';
import { newId } from '../../lib/new-id.ts';
import { MOST_HEADER_BYTES } from './answer-broken.ts';
import { problemOf } from './problems.ts';

export interface ServerOptions {
  host: string;
  /** 0: any free port. */
  port: number;
  /** In which a request has come to its end, with its body; `LIMITS.requestSeconds` where it is not given. */
  requestTimeoutMs?: number;
}

/** How often connections are looked at for requests that have taken too long, in ms. */
const MOST_CHECKING_MS = 5000;

/** Listens, and tells whoever asks to wait, until another listener takes the place of `tellToWait`. Rejects where it cannot. */
export async function openServer({
  host,
  port,
  requestTimeoutMs = LIMITS.requestSeconds * 1000,
}: ServerOptions): Promise<Server> {
  const limits = {
    maxHeaderSize: MOST_HEADER_BYTES,
    // Node would refuse it without a word: `checkRequest` does.
    requireHostHeader: false,
    // Of its body each request is told apart from an upload by whoever serves it.
    requestTimeout: 0,
    headersTimeout: requestTimeoutMs,
    connectionsCheckingInterval: Math.min(requestTimeoutMs, MOST_CHECKING_MS),
  };
  const server = createServer(limits, tellToWait);
  await listen(server, { host, port }, 'PORT');
  return server;
}

/** Answers that the process is starting. */
export function tellToWait(request: IncomingMessage, response: ServerResponse): void {
  const starting = new DroverError('not-ready', 503, 'Not ready: process starting.');
  const [path = ''] = (request.url ?? '').split('?', 1);
  response.writeHead(503, {
    'content-type': 'application/problem+json',
    'cache-control': 'no-store',
    'retry-after': '2',
    connection: 'close',
  });
  response.end(JSON.stringify(problemOf(starting, { path, requestId: newId() })));
}
