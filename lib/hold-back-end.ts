import type { Duplex } from 'node:stream';

/**
 * Holds back the end of an HTTP connection from undici until it has read all that has come: undici 7 throws in the socket's
 * event, which ends the process, if an answer that is read slowly meets the end of its connection (its issue 5360). A reset
 * counts as an end there, and is told as another error. Nothing else may listen to `readable`.
 */
export function holdBackEnd<T extends Duplex>(socket: T): T {
  const read = socket.read.bind(socket) as (size?: number) => Buffer | null;
  const push = socket.push.bind(socket);
  const destroy = socket.destroy.bind(socket);
  let isHeld = false;
  let isReadOut = false;
  // When it is told of bytes, undici reads until there are none, unless the answer's reader has enough for now.
  const isPaused = () => {
    isReadOut = false;
    socket.emit('readable');
    return !isReadOut;
  };
  const tellEnd = () => {
    if (!isHeld || isPaused()) return;
    isHeld = false;
    push(null);
    read(0);
  };
  return Object.assign(socket, {
    read(size?: number): Buffer | null {
      const piece = read(size);
      // With a size it only asks the stream to go on.
      if (size !== undefined || piece !== null) return piece;
      isReadOut = true;
      // Not at once: undici's parser may be paused again before it has returned.
      if (isHeld) setImmediate(tellEnd);
      return null;
    },
    push(piece: unknown, encoding?: BufferEncoding): boolean {
      // Nobody listens before undici has taken the connection over.
      if (piece !== null || socket.listenerCount('readable') === 0) return push(piece, encoding);
      isHeld = true;
      tellEnd();
      return false;
    },
    destroy(error?: Error): T {
      const isReset = error && 'code' in error && error.code === 'ECONNRESET';
      return destroy(isReset && isPaused() ? new Error('the connection was reset', { cause: error }) : error);
    },
  });
}
