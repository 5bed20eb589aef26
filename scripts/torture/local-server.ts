/** Base of a torture's stand-ins: HTTP on the loopback interface, recording which clients hung up. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A request whose client hung up before the answer. */
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
  /** Records it under this label if the client hangs up. */
  watch: (label: string) => void;
}

/** Serves until closed. An error of `answer` is a 500. */
export async function startLocalServer(answer: (request: LocalRequest) => Promise<void>): Promise<LocalServer> {
  const broken: BrokenRequest[] = [];
  const take = async (incoming: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const body = JSON.parse(Buffer.concat(chunks).toString() || '{}') as unknown;
    const watch = (label: string) => {
      response.once('close', () => {
        // The stand-in itself destroys responses only with an error, which marks them.
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

/** Breaks the connection in the middle of an answer, on purpose. */
export function breakOff(response: ServerResponse): void {
  response.destroy(new Error('broken on purpose'));
}

/** Resolves with true after `ms`, or with false once the client has gone. */
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
