/** ACP's messages on a WebSocket. */
import { methods, RequestError, type AnyMessage, type Stream } from '@agentclientprotocol/sdk';
import type { RawData } from 'ws';
import { z } from 'zod';
import { cleanJson, isDeeperThan } from '../../core/content.ts';
import { answerTo } from '../kit/json-rpc-body.ts';
import { refuseRounded } from '../kit/refuse-rounded.ts';
import { RefusedJson } from '../kit/refused-json.ts';
import type { OpenSocket } from '../kit/sockets.ts';

const MAX_DEPTH = 256;

/** A socket's messages as a stream for the SDK; writing waits while the client does not keep up. */
export function streamOf(open: OpenSocket, signal: AbortSignal): Stream {
  const { socket } = open;
  const readable = new ReadableStream<AnyMessage>({
    start(controller) {
      socket.on('message', (data: RawData, isBinary) => {
        try {
          const message = parse(data, isBinary);
          // After a close of ours, what the client still sends counts for nothing.
          if (!signal.aborted && socket.readyState === socket.OPEN) controller.enqueue(message);
        } catch (error) {
          open.send(JSON.stringify(refusal(error)));
        }
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

/** Parses a message. Throws the error to answer instead. */
function parse(data: RawData, isBinary: boolean): AnyMessage {
  if (isBinary) throw noMessage();
  const text = (Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Buffer)).toString();
  const message = valueOf(text);
  const isObject = typeof message === 'object' && message !== null && !Array.isArray(message);
  if (!isObject || isDeeperThan(message, MAX_DEPTH)) throw noMessage();
  refuseRounded(text, message);
  return clean(message) as AnyMessage;
}

const prompted = z.looseObject({
  method: z.literal(methods.agent.session.prompt),
  params: z.looseObject({ prompt: z.unknown() }),
});

/** All of a message is storable but a prompt: who reads that cleans it, and notes what was replaced. */
function clean(message: object): unknown {
  const { data } = prompted.safeParse(message);
  if (!data) return cleanJson(message);
  const { params, ...asked } = data;
  const { prompt, ...others } = params;
  return { ...cleanJson(asked), params: { ...cleanJson(others), prompt } };
}

function valueOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw RequestError.parseError(undefined, 'a message is JSON');
  }
}

function noMessage(): RequestError {
  return RequestError.invalidRequest(undefined, 'a message is one JSON-RPC object as text');
}

function refusal(thrown: unknown) {
  const jsonrpc = '2.0';
  if (thrown instanceof RefusedJson) {
    const { id, code } = answerTo(thrown);
    return { jsonrpc, id, error: { code, message: thrown.message } };
  }
  const error = thrown instanceof RequestError ? thrown : RequestError.internalError();
  return { jsonrpc, id: null, error: error.toErrorResponse() };
}
