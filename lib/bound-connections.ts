import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { mostOpenFiles } from './most-open-files.ts';

interface Bounded {
  /** Those that are open. */
  open: ReadonlySet<Socket>;
  /** Says that a connection is more than its requests from now on, as a WebSocket is. */
  keep: (connection: Duplex) => void;
}

interface Bound {
  most: number;
  /** Told of each connection that is closed for another one, or refused. */
  onClosed: (reason: Error) => void;
}

/**
 * Bounds the connections that a server has at the time. Where it has all that it may have, the one on which no request has been
 * open for longest makes room for a new one: whether silent, half sent or kept alive, waiting costs its sender nothing. If a
 * request is open on each of them, the new one is closed.
 */
export function boundConnections(server: Server, { most, onClosed }: Bound): Bounded {
  const open = new Set<Socket>();
  // Those without an open request, in the order in which they have begun to wait for one.
  const waiting = new Set<Duplex>();
  const openRequests = new WeakMap<Socket, number>();
  server.on('connection', (socket: Socket) => {
    // One that is parsed again after an upgrade which nobody takes.
    if (open.has(socket)) return;
    const [oldest = socket] = waiting;
    const closed = open.size < most ? undefined : oldest;
    if (closed) {
      forget(closed);
      closed.destroy();
      onClosed(new Error(`it has ${most} connections, as many as it may have`));
    }
    if (closed === socket) return;
    open.add(socket);
    waiting.add(socket);
    socket.once('close', () => forget(socket));
  });
  server.on('request', ({ socket }, response) => {
    waiting.delete(socket);
    count(socket, 1);
    response.once('close', () => {
      if (count(socket, -1) === 0 && open.has(socket)) waiting.add(socket);
    });
  });
  return { open, keep: (connection) => void waiting.delete(connection) };

  function forget(socket: Duplex): void {
    open.delete(socket as Socket);
    waiting.delete(socket);
  }
  // A client may send requests without waiting for the answers to earlier ones.
  function count(socket: Socket, more: number): number {
    const now = (openRequests.get(socket) ?? 0) + more;
    openRequests.set(socket, now);
    return now;
  }
}

/** A share of the connections that the process may have: files and databases need some, too. */
export function shareOfConnections(percent: number): number {
  return Math.ceil((mostOpenFiles() * percent) / 100);
}
