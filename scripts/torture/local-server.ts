/** What the stand-ins of a torture have in common: HTTP on the loopback interface, and a note of who hung up. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A request whose client went away before it had its answer. */
export interface BrokenRequest {
  label: string;
  atMs: number;
}

export interface LocalServer {
  url: string;
  broken: BrokenRequest[];
  close: () => Promise<void>;
}

interface LocalRequest {
  path: string;
  headers: IncomingMessage['headers'];
  body: unknown;
  response: ServerResponse;
  /** Notes it under this label if the client hangs up. */
  watch: (label: string) => void;
}

/** Serves until it is closed. What `answer` throws is a 500. */
export async function startLocalServer(answer: (request: LocalRequest) => Promise<void>): Promise<LocalServer> {
  const broken: BrokenRequest[] = [];
  const take = async (incoming: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const body = JSON.parse(Buffer.concat(chunks).toString() || '{}') as unknown;
    const watch = (label: string) => {
      response.once('close', () => {
        // The stand-in itself destroys a response only with an error, which marks it.
        if (!response.writableFinished && !response.errored) broken.push({ label, atMs: Date.now() });
      });
    };
    await answer({ path: incoming.url ?? '/', headers: incoming.headers, body, response, watch });
  };
  const server = createServer((incoming, response) => {
    response.on('error', () => undefined);
    take(incoming, response).catch((error: unknown) => {
      if (!response.headersSent) response.writeHead(500).end(String(error));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    broken,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Ends the connection in the middle of an answer, on purpose. */
export function breakOff(response: ServerResponse): void {
  response.destroy(new Error('broken on purpose'));
}

/** Resolves after `ms`; false if the client has gone by then. */
export function pause(response: ServerResponse, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      response.off('close', end);
      resolve(!response.destroyed);
    };
    const timer = setTimeout(end, ms);
    response.once('close', end);
  });
}
