export interface HopRequest {
  url: URL;
  method: string;
  /** Names in lower case. */
  headers: Record<string, string>;
  body: string | undefined;
}

/**
 * Headers that may follow to another origin. Not a list of those to drop: a tool's own headers may hold a key under any
 * name.
 */
const HEADERS_FOR_ANYONE =
  /^(accept|accept-language|content-type|user-agent|idempotency-key|traceparent|x-drover-run-id|x-drover-tool-call-id)$/;

/** The request after a redirect with `status` to `url` (Fetch standard, HTTP-redirect fetch). */
export function nextHop(request: HopRequest, status: number, url: URL): HopRequest {
  const becomesGet =
    (status === 303 && request.method !== 'HEAD') || ((status === 301 || status === 302) && request.method === 'POST');
  const headers = Object.entries(request.headers).filter(
    ([name]) =>
      (url.origin === request.url.origin || HEADERS_FOR_ANYONE.test(name)) &&
      !(becomesGet && name.startsWith('content-')),
  );
  return {
    url,
    method: becomesGet ? 'GET' : request.method,
    headers: Object.fromEntries(headers),
    body: becomesGet ? undefined : request.body,
  };
}
