import type { Response as UndiciResponse } from 'undici';
import { countingValues } from '../lib/json-size.ts';
import { UnknownEncodingError, UnpackError, unpackBody, type Packing } from '../lib/unpack-body.ts';
import { EgressError } from './egress-error.ts';

const NO_BODY = [101, 103, 204, 205, 304];

interface Streaming {
  maxBytes: number;
  maxValues: number;
  packing: Packing;
  /** Ends the unpacking, too, which may go on when all has come; `finish` must abort it. */
  signal: AbortSignal;
  finish: (fault?: EgressError) => void;
}

/**
 * Wraps a response, and unpacks it. Its body calls `finish` once at its end: read, broken off, or abandoned. A body, or an event in a
 * stream of events, with more than `maxBytes`, or `maxValues` of JSON, fails with an `EgressError`, as does one that
 * breaks off; `finish` gets that error.
 */
export function streamedResponse(
  response: UndiciResponse,
  { maxBytes, maxValues, packing, signal, finish }: Streaming,
): Response {
  const init = { status: response.status, statusText: response.statusText, headers: [...response.headers] };
  if (response.body === null || NO_BODY.includes(response.status)) {
    finish();
    return new Response(null, init);
  }
  const pieces = unpackBody(response.body, packing, signal)[Symbol.asyncIterator]();
  const count = sizeCounter(/^text\/event-stream/i.test(response.headers.get('content-type') ?? ''));
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value: chunk } = await pieces.next();
        if (done) {
          finish();
          controller.close();
          return;
        }
        const { bytes, values } = count(chunk);
        if (bytes > maxBytes) throw tooLarge(`is larger than ${maxBytes} bytes`);
        if (values > maxValues) throw tooLarge(`has more than ${maxValues} values`);
        controller.enqueue(chunk);
      } catch (error) {
        const fault = explain(error);
        finish(fault);
        throw fault;
      }
    },
    cancel: () => finish(),
  });
  return new Response(body, init);
}

function explain(error: unknown): EgressError {
  if (error instanceof EgressError) return error;
  const about = { sent: true, cause: error };
  return error instanceof UnknownEncodingError
    ? new EgressError('unknown-encoding', error.message, about)
    : new EgressError('lost', error instanceof UnpackError ? error.message : 'the connection broke', about);
}

function tooLarge(what: string): EgressError {
  return new EgressError('too-large', `the answer ${what}`, { sent: true });
}

/** Counts bytes and JSON values so far, in the whole body or since the last empty line of an event stream. */
function sizeCounter(events: boolean): (chunk: Uint8Array) => { bytes: number; values: number } {
  let bytes = 0;
  let countValues = countingValues();
  return (chunk) => {
    const text = events ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength) : undefined;
    const end = text ? Math.max(text.lastIndexOf('\n\n'), text.lastIndexOf('\n\r\n'), text.lastIndexOf('\r\r')) : -1;
    bytes = end < 0 ? bytes + chunk.byteLength : chunk.byteLength - end;
    if (end >= 0) countValues = countingValues();
    return { bytes, values: countValues(end < 0 ? chunk : chunk.subarray(end)) };
  };
}
