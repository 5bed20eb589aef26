import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';

/** Lifetime of a session. */
export const SESSION_MS = 8 * 3_600_000;

export interface SessionCookies {
  /** The cookie value for a session with this key. */
  issue(keyId: string): string;
  /** The key's id; undefined if the value is forged, damaged or too old. */
  read(value: string): string | undefined;
}

/**
 * Sessions without storage: a signed key id and expiry. With a `secretKey`, all API processes accept each other's
 * cookies; without one only their own. `now` gives ms since the epoch.
 */
export function createSessionCookies(secretKey: string | undefined, now: () => number = Date.now): SessionCookies {
  const key =
    secretKey === undefined
      ? randomBytes(32)
      : Buffer.from(hkdfSync('sha256', secretKey, '', 'drover: session cookie of /admin', 32));
  const sign = (payload: string) => createHmac('sha256', key).update(payload).digest();
  return {
    issue(keyId) {
      const payload = `${keyId}.${now() + SESSION_MS}`;
      return `${payload}.${sign(payload).toString('base64url')}`;
    },
    read(value) {
      const [, payload, keyId, until, signature] = /^(([0-9a-f-]{36})\.(\d{1,15}))\.([\w-]{43})$/.exec(value) ?? [];
      if (payload === undefined || signature === undefined) return undefined;
      const given = Buffer.from(signature, 'base64url');
      const expected = sign(payload);
      if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
      return Number(until) > now() ? keyId : undefined;
    },
  };
}
