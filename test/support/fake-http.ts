/** A local HTTP server for the stand-ins of model providers. */
import { createServer } from 'node:http';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface FakeRequest {
  path: string;
  headers: IncomingHttpHeaders;
  body: Record<string, unknown>;
}

export interface FakeServer {
  /** Without a slash at its end. */
  url: string;
  /** Every request so far, in order. */
  requests: FakeRequest[];
  close: () => Promise<void>;
}

/** Errors a provider may answer with; `midStream` sends it as an event after the answer has begun. */
interface FakeError {
  status?: number;
  type: string;
  message?: string;
  code?: string;
  /** Seconds, as the header says them. */
  retryAfter?: number;
  headers?: Record<string, string>;
  midStream?: boolean;
}

export interface Faults {
  /** Time before the answer begins. */
  delayMs?: number;
  error?: FakeError;
  /** The connection is destroyed in the middle of the answer. */
  breakOff?: boolean;
  /** The answer begins and then falls silent for ever. */
  hang?: boolean;
}

type Answer = (request: FakeRequest, response: ServerResponse, n: number) => Promise<void>;

/** Starts a server on a free port of the loopback interface; `n` counts requests from 0. What `aside` answers counts as none. */
export async function startFakeHttp(
  answer: Answer,
  aside: (request: FakeRequest, response: ServerResponse) => Promise<boolean> = async () => false,
): Promise<FakeServer> {
  const requests: FakeRequest[] = [];
  const server = createServer((incoming, response) => {
    void (async () => {
      const request = await readRequest(incoming);
      if (await aside(request, response)) return;
      requests.push(request);
      try {
        await answer(request, response, requests.length - 1);
      } catch (error) {
        response.writeHead(500).end(`the stand-in's script failed: ${String(error)}`);
      }
    })();
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Writes one server-sent event. */
export function sendEvent(response: ServerResponse, data: unknown, event?: string): void {
  response.write(`${event === undefined ? '' : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`);
}

/** Resolves after `ms`, or at once when the client has gone. */
export function delay(response: ServerResponse, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    response.once('close', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

export function errorHeaders(error: FakeError): Record<string, string> {
  return {
    'content-type': 'application/json',
    ...(error.retryAfter !== undefined && { 'retry-after': String(error.retryAfter) }),
    ...error.headers,
  };
}

async function readRequest(incoming: IncomingMessage): Promise<FakeRequest> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  return {
    path: incoming.url ?? '',
    headers: incoming.headers,
    body: text === '' ? {} : (JSON.parse(text) as Record<string, unknown>),
  };
}
