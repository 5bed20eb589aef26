/** A proxy between Drover and a service that can cut or delay their connections. */
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

export interface ServiceProxy {
  /** The service's URL with the proxy's host and port. */
  url: string;
  /** Breaks all connections and refuses new ones until `restore`. */
  cut: () => Promise<void>;
  restore: () => Promise<void>;
  /** New connections go to this service, those that are open stay where they are. */
  leadTo: (target: string) => void;
  /** Delays all data in both directions; 0 ends it. */
  setLatency: (ms: number) => void;
  /** The number of open connections. */
  count: () => number;
  /** The number of round trips: how often the client sent after the service had. */
  roundTrips: () => number;
  close: () => Promise<void>;
}

/** Opens a proxy on a free port of the loopback interface. */
export async function openServiceProxy(target: string): Promise<ServiceProxy> {
  let place = placeOf(target);
  const sockets = new Set<Socket>();
  let latencyMs = 0;
  let trips = 0;
  let port = 0;
  let server: Server | undefined;
  const accept = (client: Socket) => {
    const upstream = connect(place.port, place.host);
    countTurns(client, upstream, () => {
      trips += 1;
    });
    forward(client, upstream, () => latencyMs);
    forward(upstream, client, () => latencyMs);
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true);
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
  };
  const restore = async () => {
    if (server) return;
    const next = createServer(accept);
    server = next;
    next.listen(port, '127.0.0.1');
    await once(next, 'listening');
    port = (next.address() as AddressInfo).port;
  };
  const cut = async () => {
    if (!server) return;
    const closed = once(server, 'close');
    server.close();
    server = undefined;
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  await restore();
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String(port);
  return {
    url: url.href,
    cut,
    restore,
    count: () => sockets.size / 2,
    roundTrips: () => trips,
    leadTo: (next) => {
      place = placeOf(next);
    },
    setLatency: (ms) => {
      latencyMs = ms;
    },
    close: cut,
  };
}

function placeOf(target: string): { port: number; host: string } {
  const { port, protocol, hostname } = new URL(target);
  return { port: Number(port || (protocol.startsWith('redis') ? 6379 : 5432)), host: hostname };
}

function countTurns(client: Socket, upstream: Socket, onTurn: () => void): void {
  let clientSpoke = false;
  client.on('data', () => {
    if (!clientSpoke) onTurn();
    clientSpoke = true;
  });
  upstream.on('data', () => {
    clientSpoke = false;
  });
}

/** Forwards pieces in order, even if the latency changes between them. */
function forward(from: Socket, to: Socket, latencyMs: () => number): void {
  const queue: { dueMs: number; chunk: Buffer }[] = [];
  let timer: NodeJS.Timeout | undefined;
  const drain = () => {
    timer = undefined;
    const now = performance.now();
    for (let head = queue[0]; head && head.dueMs <= now; head = queue[0]) {
      queue.shift();
      to.write(head.chunk);
    }
    const [next] = queue;
    if (next) timer = setTimeout(drain, Math.max(1, next.dueMs - now));
  };
  from.on('data', (chunk: Buffer) => {
    const ms = latencyMs();
    if (ms === 0 && queue.length === 0) {
      to.write(chunk);
      return;
    }
    queue.push({ dueMs: performance.now() + ms, chunk });
    timer ??= setTimeout(drain, ms);
  });
  from.on('close', () => clearTimeout(timer));
}
