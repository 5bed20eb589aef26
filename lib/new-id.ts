/** What clock and chance make: ids and secrets. */
import { randomBytes } from 'node:crypto';
import { v7 } from 'uuid';

/** A new id: UUIDv7 (RFC 9562), so that ids sort by the time they were made. */
export function newId(): string {
  return v7();
}

/** A secret of 256 random bits, URL-safe. */
export function newSecret(): string {
  return randomBytes(32).toString('base64url');
}

/**
 * How long ago an id of `newId` was made, by the clocks of two processes that may differ: good for numbers, not for decisions.
 * Undefined for an id that does not say.
 */
export function ageMs(id: string | undefined): number | undefined {
  if (id === undefined || id[14] !== '7') return undefined;
  return Math.max(0, Date.now() - Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16));
}
