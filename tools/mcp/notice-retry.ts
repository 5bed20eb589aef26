/** Longer beginnings of a line are no `retry`. */
const LINE_CHARS = 40;

/** The same response; `onRetry` is told each `retry` of its stream of events, in ms. The SDK keeps these to itself. */
export function noticeRetry(response: Response, onRetry: (ms: number) => void): Response {
  const { body, status, statusText, headers } = response;
  if (!body || !/^text\/event-stream/i.test(headers.get('content-type') ?? '')) return response;
  return new Response(body.pipeThrough(retryReader(onRetry)), { status, statusText, headers });
}

function retryReader(onRetry: (ms: number) => void): TransformStream<Uint8Array, Uint8Array> {
  let unfinished = '';
  return new TransformStream({
    transform(chunk, controller) {
      const lines = (unfinished + Buffer.from(chunk).toString('latin1')).split(/\r\n|\r|\n/);
      unfinished = (lines.pop() ?? '').slice(0, LINE_CHARS);
      for (const line of lines) {
        const [, ms] = /^retry: ?(\d+)$/.exec(line) ?? [];
        if (ms !== undefined) onRetry(Number(ms));
      }
      controller.enqueue(chunk);
    },
  });
}
