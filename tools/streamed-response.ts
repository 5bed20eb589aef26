import type { Response as UndiciResponse } from 'undici';
import { EgressError } from './egress-error.ts';

const NO_BODY = [101, 103, 204, 205, 304];

/**
 * The response with a body that calls `finish` once, at its end: read, broken off, or let go. A body, or an event of a
 * stream of events, that is longer than `maxBytes` ends in an `EgressError`, and so does one that breaks off.
 */
export function streamedResponse(
  response: UndiciResponse,
  { maxBytes, finish }: { maxBytes: number; finish: () => void },
): Response {
  const init = { status: response.status, statusText: response.statusText, headers: [...response.headers] };
  if (response.body === null || NO_BODY.includes(response.status)) {
    finish();
    return new Response(null, init);
  }
  const reader = response.body.getReader();
  const count = byteCounter(/^text\/event-stream/i.test(response.headers.get('content-type') ?? ''));
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) {
          finish();
          controller.close();
          return;
        }
        const chunk = value as Uint8Array;
        if (count(chunk) > maxBytes) {
          throw new EgressError('too-large', `the answer is larger than ${maxBytes} bytes`, { sent: true });
        }
        controller.enqueue(chunk);
      } catch (error) {
        finish();
        if (error instanceof EgressError) throw error;
        throw new EgressError('lost', 'the connection broke', { sent: true, cause: error });
      }
    },
    cancel: finish,
  });
  return new Response(body, init);
}

/** Bytes so far, of the whole body or since the last empty line of a stream of events. */
function byteCounter(events: boolean): (chunk: Uint8Array) => number {
  let bytes = 0;
  return (chunk) => {
    const text = events ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength) : undefined;
    const end = text ? Math.max(text.lastIndexOf('\n\n'), text.lastIndexOf('\n\r\n'), text.lastIndexOf('\r\r')) : -1;
    bytes = end < 0 ? bytes + chunk.byteLength : chunk.byteLength - end;
    return bytes;
  };
}
