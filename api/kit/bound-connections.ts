import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { LIMITS } from '../../core/limits.ts';
import { mostOpenFiles } from '../../lib/most-open-files.ts';

/**
 * The connections that a server has at the time. Where it has all that it may have, the oldest one on which nothing has come
 * makes room for a new one: silence costs its sender nothing. If there is none, the new one is closed. `onClosed` is told of
 * each. By default it has a share of the process's descriptors: files and databases need some, too.
 */
export function boundConnections(
  server: Server,
  most = mostByDescriptors(),
  onClosed: (reason: Error) => void,
): ReadonlySet<Socket> {
  const open = new Set<Socket>();
  const maybeSilent = new Set<Socket>();
  const takeSilent = () => {
    for (const socket of maybeSilent) {
      maybeSilent.delete(socket);
      if (socket.bytesRead === 0) return socket;
    }
    return undefined;
  };
  server.on('connection', (socket: Socket) => {
    // One that is parsed again after an upgrade which nobody takes.
    if (open.has(socket)) return;
    const closed = open.size < most ? undefined : (takeSilent() ?? socket);
    if (closed) {
      open.delete(closed);
      closed.destroy();
      onClosed(new Error(`it has ${most} connections, as many as it may have`));
    }
    if (closed === socket) return;
    open.add(socket);
    maybeSilent.add(socket);
    socket.once('close', () => {
      open.delete(socket);
      maybeSilent.delete(socket);
    });
  });
  return open;
}

function mostByDescriptors(): number {
  const descriptors = mostOpenFiles() ?? Infinity;
  return Math.ceil((descriptors * LIMITS.connectionSharePercent) / 100);
}
