import type { Middleware } from './state.ts';

/** Headers of every answer: JSON must not be rendered, sniffed, framed or cached. Pages set their own policy. */
export function securityHeaders(): Middleware {
  return async (ctx, next) => {
    ctx.set({
      'Cache-Control': 'no-store',
      'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
      'Cross-Origin-Resource-Policy': 'same-origin',
      'Referrer-Policy': 'no-referrer',
      'X-Content-Type-Options': 'nosniff',
      'X-Frame-Options': 'DENY',
    });
    await next();
  };
}
