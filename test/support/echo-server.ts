import { createServer } from 'node:http';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

export interface SeenRequest {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  socket: Socket;
}

export interface LocalServer {
  port: number;
  /** `http://127.0.0.1:port`, without a slash at its end. */
  url: string;
  seen: SeenRequest[];
  close(): Promise<void>;
}

/** Starts an HTTP server on a free port of `address` that keeps what it sees and answers as it is told. */
export async function startServer(
  answer: (request: SeenRequest, response: ServerResponse) => void,
  address = '127.0.0.1',
): Promise<LocalServer> {
  const seen: SeenRequest[] = [];
  const server = createServer((incoming, response) => {
    void readAll(incoming).then((body) => {
      const { method = '', url: path = '', headers, socket } = incoming;
      const request = { method, path, headers, body, socket };
      seen.push(request);
      answer(request, response);
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, address, resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://${address}:${port}`,
    seen,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** A port of the loopback interface on which nothing listens. */
export async function closedPort(): Promise<number> {
  const server = await startServer(() => undefined);
  await server.close();
  return server.port;
}

async function readAll(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
