import { unavailable } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';

/** The memory of a process for data of all clients together. */
export interface SharedRoom {
  /** The room as a tenant has it: no more than its share, and all of it if a request is of no tenant. */
  of(tenantId: string | undefined): Room;
}

export interface Room {
  /** Throws 503 if so many bytes do not fit. */
  require(bytes: number): void;
  /** Takes room, which the caller gives back. Throws 503 if there is none. */
  take(bytes: number): void;
  give(bytes: number): void;
}

/** Its size, a tenant's share of it in percent, and what a client is told if the room, or its share, is full. */
interface Rules {
  mostBytes: number;
  sharePercent: number;
  full: string;
  shareFull: string;
}

/** Room for incoming bodies and messages of so many bytes. */
export function createBodyRoom(mostBytes: number = LIMITS.bodyBytesAtOnce): SharedRoom {
  return createRoom({
    mostBytes,
    sharePercent: LIMITS.tenantBodySharePercent,
    full: 'Too much is being sent here at the time; the request may be sent again.',
    shareFull: 'The tenant is sending too much here at the time; the request may be sent again.',
  });
}

/** Room for answers of so many bytes that their clients have not taken yet. */
export function createAnswerRoom(mostBytes: number = LIMITS.answerBytesAtOnce): SharedRoom {
  const done = 'What the request asks for has been done, and one that only reads may be sent again.';
  return createRoom({
    mostBytes,
    sharePercent: LIMITS.tenantAnswerSharePercent,
    full: `Too many answers wait here to be read, so there is no room for this one. ${done}`,
    shareFull: `Too many answers to the tenant wait here to be read, so there is no room for this one. ${done}`,
  });
}

function createRoom({ mostBytes, sharePercent, full, shareFull }: Rules): SharedRoom {
  const mostOfTenant = (mostBytes * sharePercent) / 100;
  const held = new Map<string, number>();
  let left = mostBytes;
  const heldBy = (tenantId: string) => held.get(tenantId) ?? 0;
  const hold = (tenantId: string | undefined, bytes: number) => {
    left -= bytes;
    if (tenantId === undefined) return;
    const now = heldBy(tenantId) + bytes;
    if (now > 0) held.set(tenantId, now);
    else held.delete(tenantId);
  };
  return {
    of(tenantId) {
      const require = (bytes: number): void => {
        if (bytes > left) throw unavailable(full);
        if (tenantId !== undefined && heldBy(tenantId) + bytes > mostOfTenant) throw unavailable(shareFull);
      };
      return {
        require,
        take(bytes) {
          require(bytes);
          hold(tenantId, bytes);
        },
        give(bytes) {
          hold(tenantId, -bytes);
        },
      };
    },
  };
}
