import type { ApiContext } from './state.ts';

/** Whether a request's client speaks TLS, to Drover or to the proxy in front of it. */
export function isOverTls(ctx: ApiContext): boolean {
  // Of several proxies the first one names the client's own. Anybody may: it changes nothing but the answer to them.
  return ctx.secure || /^\s*https\s*(,|$)/i.test(ctx.get('x-forwarded-proto'));
}

/** Scheme and host by which a request's client reaches Drover, for addresses in its answer. */
export function publicOrigin(ctx: ApiContext): string {
  return `${isOverTls(ctx) ? 'https' : 'http'}://${ctx.host}`;
}
