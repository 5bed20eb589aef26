/** Makes ids and secrets from the clock and random bytes. */
import { randomBytes, randomFillSync } from 'node:crypto';
import { v7 } from 'uuid';

/** Random bytes for the next ids: asking the system for each id costs three times as much as the rest of it. */
const chance = Buffer.alloc(256 * 16);
let used = chance.length;

/** The next random bytes, as a view: read them at once. */
function takeChance(bytes: number): Buffer {
  if (used + bytes > chance.length) {
    randomFillSync(chance);
    used = 0;
  }
  return chance.subarray(used, (used += bytes));
}

/** The last id's: ids of one millisecond count up. */
let msecs = 0;
let seq = 0;

/** A new UUIDv7 (RFC 9562): ids sort by the time they were made, and those of one process by the order of their making. */
export function newId(): string {
  const random = takeChance(16);
  const now = Date.now();
  if (now > msecs) {
    msecs = now;
    // Half of the range is left for counting up.
    seq = random.readUInt32BE(6) & 0x7fffffff;
  } else {
    seq = (seq + 1) | 0;
    if (seq === 0) msecs++;
  }
  return v7({ random, msecs, seq });
}

/**
 * An id that reveals nothing, not even its age: `bytes` random bytes in hex, 16 for a trace and 8 for a span (W3C Trace
 * Context).
 */
export function newRandomId(bytes: 8 | 16): string {
  return takeChance(bytes).toString('hex');
}

/** A secret of 256 random bits, URL-safe. */
export function newSecret(): string {
  return randomBytes(32).toString('base64url');
}

/**
 * The age of an id of `newId` in ms; undefined for other ids. It compares the clocks of two processes, which may
 * differ: good for metrics, not for decisions.
 */
export function ageMs(id: string | undefined): number | undefined {
  if (id === undefined || id[14] !== '7') return undefined;
  return Math.max(0, Date.now() - Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16));
}
