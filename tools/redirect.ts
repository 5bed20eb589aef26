import { EgressError } from './egress-error.ts';

export interface HopRequest {
  url: URL;
  method: string;
  /** Names in lower case. */
  headers: Record<string, string>;
  body: string | undefined;
  /** It has left its first origin, and what was for that alone is gone. */
  hasLeft?: boolean;
}

/** The parts of a request that are for its origin alone. */
export interface Confidential {
  /** In lower case. They are dropped on the way to another origin, whatever their names. */
  headers: readonly string[];
  /** Whether a redirect that takes it to another origin is refused. */
  body: boolean;
  /** Why a redirect may not lead to this URL, with the request's secrets (`carried`) or without; undefined if it may. */
  refuseUrl(url: URL, carried: boolean): Promise<string | undefined>;
}

/** Headers that may follow to another origin. An allow-list, as a tool's own headers may hold a key under any name. */
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
    hasLeft: request.hasLeft === true || url.origin !== request.url.origin,
  };
}

/** The next request without confidential parts. Throws if it cannot be sent without them. */
export async function withoutSecrets(
  confidential: Confidential | undefined,
  from: HopRequest,
  next: HopRequest,
): Promise<HopRequest> {
  if (!confidential) return next;
  const away = next.url.origin !== from.url.origin;
  const holdsBody = away && confidential.body && next.body !== undefined;
  const refused = holdsBody
    ? 'a body that holds a secret to another origin'
    : await confidential.refuseUrl(next.url, next.hasLeft !== true);
  if (refused !== undefined) {
    const message = `${from.url.host} redirected ${refused}`;
    throw new EgressError('refused', message, { sent: true });
  }
  if (!away) return next;
  const headers = Object.entries(next.headers).filter(([name]) => !confidential.headers.includes(name));
  return { ...next, headers: { 'user-agent': 'drover', ...Object.fromEntries(headers) } };
}
