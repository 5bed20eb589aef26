import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** How often a client is looked at within the time that it has. */
const LOOKS = 4;

/**
 * Cuts off a client that takes nothing of what waits for it for `stallMs`, or up to a quarter longer: it would stay in memory.
 * The socket's own timer would begin anew with whatever the client sends. Time in which nothing waits does not count.
 */
export function cutOffStalled(response: ServerResponse, stallMs: number): void {
  const { socket } = response;
  if (!socket || response.closed) return;
  let before = takenOf(socket);
  let quietLooks = 0;
  const timer = setInterval(() => {
    const taken = takenOf(socket);
    quietLooks = socket.writableLength > 0 && taken === before ? quietLooks + 1 : 0;
    before = taken;
    if (quietLooks >= LOOKS) response.destroy();
  }, stallMs / LOOKS);
  response.once('close', () => clearInterval(timer));
}

/**
 * Changes with whatever the kernel takes of a connection. Only the handle shows how far it is with a write, and an answer may
 * be a single one. The kernel takes more once a third of its buffer is free.
 */
function takenOf(socket: Socket & { _handle?: { writeQueueSize?: number } | null }): string {
  const { bytesWritten, writableLength, _handle: handle } = socket;
  return `${bytesWritten - writableLength} ${handle?.writeQueueSize}`;
}
