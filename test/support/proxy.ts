import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

export interface Proxy {
  /** The URL with the proxy's address in place of the server's. */
  url: string;
  /** Breaks all connections and refuses new ones, as a server does that has gone down. */
  cut: () => Promise<void>;
  restore: () => Promise<void>;
  /** Connections open now. */
  count: () => number;
  /** Turns of the conversation: how often the client spoke after the server had. */
  roundTrips: () => number;
  close: () => Promise<void>;
}

/** Stands between a client and the server of `target`, which can so go away and come back for one test alone. */
export async function openProxy(target: string): Promise<Proxy> {
  const to = new URL(target);
  const defaultPort = to.protocol.startsWith('redis') ? 6379 : 5432;
  const sockets = new Set<Socket>();
  let trips = 0;
  const accept = (client: Socket) => {
    const server = connect(Number(to.port || defaultPort), to.hostname);
    let clientSpoke = false;
    client.on('data', () => {
      if (!clientSpoke) trips += 1;
      clientSpoke = true;
    });
    server.on('data', () => {
      clientSpoke = false;
    });
    client.pipe(server).pipe(client);
    for (const socket of [client, server]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        client.destroy();
        server.destroy();
      });
    }
  };
  let port = 0;
  let server = createServer(accept);
  const listen = async () => {
    server = createServer(accept);
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    port = (server.address() as AddressInfo).port;
  };
  const cut = async () => {
    const closed = once(server, 'close');
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  await listen();
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String(port);
  return {
    url: url.href,
    cut,
    restore: listen,
    count: () => sockets.size / 2,
    roundTrips: () => trips,
    close: async () => {
      if (server.listening) await cut();
    },
  };
}
