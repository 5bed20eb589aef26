import { badRequest, DroverError } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Middleware } from './state.ts';

/** A host of RFC 3986, section 3.2.2, with or without a port, as far as it names anything that a client can reach. */
const HOST = /^(\[[\w:.%~-]+\]|[\w.~-]*)(:\d{0,5})?$/;

/** Two servers may each go by another of them. */
const ONCE = ['host', 'authorization'];

/** Refuses what no route takes: 400 for NUL in the URL or a wrong `Host`, 414 and 431 for a URL or headers too long, 417. */
export function checkRequest(): Middleware {
  return async (ctx, next) => {
    const { url = '', rawHeaders, headers, httpVersion } = ctx.req;
    // RFC 9110, section 10.1.1, and RFC 9112, section 3.2.
    if (headers.expect !== undefined && headers.expect.toLowerCase() !== '100-continue')
      throw new DroverError('expectation-failed', 417, 'Nothing but "100-continue" is expected here.');
    if (headers.host === undefined && httpVersion === '1.1') throw badRequest('The request has no Host header.');
    if (!HOST.test(headers.host ?? '')) throw badRequest('The Host header must be a host name or address, and a port.');
    for (const name of ONCE) {
      const lines = rawHeaders.filter((each, at) => at % 2 === 0 && each.toLowerCase() === name);
      if (lines.length > 1) throw badRequest(`The request has several ${name} headers.`);
    }
    if (url.length > LIMITS.urlBytes) {
      throw new DroverError('url-too-long', 414, `The URL is longer than ${LIMITS.urlBytes} bytes.`);
    }
    // Name, value, and the two characters after each.
    const headerBytes = rawHeaders.reduce((sum, text) => sum + text.length + 2, 0);
    if (headerBytes > LIMITS.headerBytes) throw headersTooLong(LIMITS.headerBytes);
    // Text in the database cannot hold it.
    if (url.includes('%00')) throw badRequest('The URL holds a NUL character (%00).');
    await next();
  };
}

/** 431. */
export function headersTooLong(bytes: number): DroverError {
  return new DroverError('headers-too-long', 431, `The URL and the headers together are longer than ${bytes} bytes.`);
}
