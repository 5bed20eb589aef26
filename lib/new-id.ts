/** What clock and chance make: ids and secrets. */
import { randomBytes, randomFillSync } from 'node:crypto';
import { v7 } from 'uuid';

/** Chance for the next ids: asking the system for each of them costs three times as much as the rest of an id. */
const chance = Buffer.alloc(256 * 16);
let used = chance.length;

/** The next bytes of chance, as a view: read them at once. */
function takeChance(bytes: number): Buffer {
  if (used + bytes > chance.length) {
    randomFillSync(chance);
    used = 0;
  }
  return chance.subarray(used, (used += bytes));
}

/** Of the last id: ids of one millisecond count on. */
let msecs = 0;
let seq = 0;

/** A new id: UUIDv7 (RFC 9562), so that ids sort by the time they were made; those of one process in the order of their making. */
export function newId(): string {
  const random = takeChance(16);
  const now = Date.now();
  if (now > msecs) {
    msecs = now;
    // Half of its range is left for counting on.
    seq = random.readUInt32BE(6) & 0x7fffffff;
  } else {
    seq = (seq + 1) | 0;
    if (seq === 0) msecs++;
  }
  return v7({ random, msecs, seq });
}

/** An id that says nothing, not even when it was made: so many bytes of chance in hex, 16 for a trace and 8 for a span (W3C Trace Context). */
export function newRandomId(bytes: 8 | 16): string {
  return takeChance(bytes).toString('hex');
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
