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
