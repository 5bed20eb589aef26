/** Cross-origin requests of browsers (WHATWG Fetch, "CORS protocol"), from origins that the operator has listed. */
import type { Middleware } from './state.ts';

/** Response headers that a front end needs. */
const EXPOSED = [
  'Location',
  'Retry-After',
  'Idempotent-Replayed',
  'Preference-Applied',
  'X-Request-Id',
  'traceparent',
  'RateLimit',
  'RateLimit-Policy',
  'WWW-Authenticate',
  'Content-Disposition',
  'Content-Range',
  'X-Drover-Thread-Id',
  'X-Vercel-AI-UI-Message-Stream',
  'Mcp-Session-Id',
].join(', ');

const ALLOWED_HEADERS = [
  'Authorization',
  'Content-Type',
  'Idempotency-Key',
  'Last-Event-ID',
  'Prefer',
  'X-Workspace-Id',
  'X-Request-Id',
  'traceparent',
  'tracestate',
  'baggage',
  // Sent by clients of MCP and A2A on their own; Firefox asks for the last one if a library sets it.
  'Mcp-Session-Id',
  'Mcp-Protocol-Version',
  'A2A-Version',
  'A2A-Extensions',
  'User-Agent',
].join(', ');

/** How long a browser may cache a preflight's answer, in seconds. */
const MAX_AGE_SECONDS = 600;

/**
 * Lets pages of these origins (`*`: any) read answers, and answers preflights, which carry no key. Never allows
 * credentials: callers identify themselves by a key in a header, and a cookie that a browser adds must not replace it.
 */
export function cors(origins: readonly string[]): Middleware {
  const any = origins.includes('*');
  return async (ctx, next) => {
    if (!any && origins.length > 0) ctx.vary('Origin');
    const origin = ctx.get('origin');
    if (origin === '' || !(any || origins.includes(origin))) return next();
    ctx.set('Access-Control-Allow-Origin', any ? '*' : origin);
    if (ctx.method === 'OPTIONS' && ctx.get('access-control-request-method') !== '') {
      ctx.set({
        'Access-Control-Allow-Methods': 'GET, POST, PUT, PATCH, DELETE',
        'Access-Control-Allow-Headers': ALLOWED_HEADERS,
        'Access-Control-Max-Age': String(MAX_AGE_SECONDS),
      });
      ctx.status = 204;
      return;
    }
    ctx.set('Access-Control-Expose-Headers', EXPOSED);
    await next();
  };
}

const LOOPBACK = /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/;

/** Whether a request comes from no page, or from one of these origins or this machine. */
export function isFromKnownOrigin(origin: string, origins: readonly string[]): boolean {
  return origin === '' || origins.includes('*') || origins.includes(origin) || LOOPBACK.test(origin);
}
