import type { WebSocket } from 'ws';

export interface SocketWriter {
  send(text: string): void;
  /** Waits until the buffer has room again, the socket closes or the signal fires. */
  room(signal: AbortSignal): Promise<void>;
  /** Whether the buffer is so full that optional messages should be left out. */
  isBusy(): boolean;
}

/** Writes to a socket through a bounded buffer. `onStall` is called once it has been full for `stallMs`. */
export function createSocketWriter(
  socket: WebSocket,
  { bufferBytes, stallMs, onStall }: { bufferBytes: number; stallMs: number; onStall: () => void },
): SocketWriter {
  const isFull = () => socket.bufferedAmount > bufferBytes;
  let wake: () => void = () => undefined;
  let stall: NodeJS.Timeout | undefined;
  const calm = () => {
    clearTimeout(stall);
    stall = undefined;
  };
  socket.once('close', () => {
    calm();
    wake();
  });
  return {
    send(text) {
      if (socket.readyState !== socket.OPEN) return;
      socket.send(text, () => {
        if (!isFull()) calm();
        wake();
      });
      if (isFull()) stall ??= setTimeout(onStall, stallMs);
    },
    async room(signal) {
      const onAbort = () => wake();
      signal.addEventListener('abort', onAbort);
      while (isFull() && socket.readyState === socket.OPEN && !signal.aborted) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      signal.removeEventListener('abort', onAbort);
    },
    isBusy: () => socket.bufferedAmount > bufferBytes / 2,
  };
}
