/** ACP's messages on a WebSocket. */
import { RequestError, type AnyMessage, type Stream } from '@agentclientprotocol/sdk';
import type { RawData } from 'ws';
import { cleanJson, isDeeperThan } from '../../core/content.ts';
import type { OpenSocket } from '../kit/sockets.ts';

const MAX_DEPTH = 256;

/** The messages of a socket as the SDK takes them; whoever writes waits while the client does not keep up. */
export function streamOf(open: OpenSocket, signal: AbortSignal): Stream {
  const { socket } = open;
  const refuse = (error: RequestError) =>
    open.send(JSON.stringify({ jsonrpc: '2.0', id: null, error: error.toErrorResponse() }));
  const readable = new ReadableStream<AnyMessage>({
    start(controller) {
      socket.on('message', (data: RawData, isBinary) => {
        const message = isBinary ? undefined : parse(data);
        if (message && !signal.aborted) controller.enqueue(message);
        else if (!message) refuse(RequestError.invalidRequest(undefined, 'a message is one JSON-RPC object as text'));
      });
      signal.addEventListener('abort', () => controller.close());
    },
  });
  const writable = new WritableStream<AnyMessage>({
    async write(message) {
      await open.room(signal);
      open.send(JSON.stringify(message));
    },
    close: () => socket.close(),
    abort: () => socket.close(),
  });
  return { readable, writable };
}

function parse(data: RawData): AnyMessage | undefined {
  try {
    const text = (Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Buffer)).toString();
    const message: unknown = JSON.parse(text);
    const isObject = typeof message === 'object' && message !== null && !Array.isArray(message);
    return isObject && !isDeeperThan(message, MAX_DEPTH) ? (cleanJson(message) as AnyMessage) : undefined;
  } catch {
    return undefined;
  }
}
