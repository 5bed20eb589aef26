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

const FULL = {
  all: 'Too much is being sent here at the time; the request may be sent again.',
  share: 'The tenant is sending too much here at the time; the request may be sent again.',
};

/** Room for incoming bodies and messages of so many bytes. */
export function createBodyRoom(mostBytes: number = LIMITS.bodyBytesAtOnce): SharedRoom {
  const count = countBytes({ mostBytes, sharePercent: LIMITS.tenantBodySharePercent });
  return {
    of(tenantId) {
      const require = (bytes: number): void => {
        const full = count.fullFor(tenantId, bytes);
        if (full) throw unavailable(FULL[full]);
      };
      return {
        require,
        take(bytes) {
          require(bytes);
          count.add(tenantId, bytes);
        },
        give(bytes) {
          count.add(tenantId, -bytes);
        },
      };
    },
  };
}

/** What is held of a room of `mostBytes`. */
export interface ByteCount {
  /** What so many more bytes are too many for: the room, or the tenant's share of it. */
  fullFor(tenantId: string | undefined, bytes: number): 'all' | 'share' | undefined;
  add(tenantId: string | undefined, bytes: number): void;
  /** The tenant that holds most; '' if none holds anything. */
  holderOfMost(): string;
}

/** Counts by tenant. `sharePercent`: how much of the room a tenant may have. */
export function countBytes({ mostBytes, sharePercent }: { mostBytes: number; sharePercent: number }): ByteCount {
  const mostOfTenant = (mostBytes * sharePercent) / 100;
  const held = new Map<string, number>();
  let left = mostBytes;
  const heldBy = (tenantId: string) => held.get(tenantId) ?? 0;
  return {
    fullFor(tenantId, bytes) {
      if (bytes > left) return 'all';
      return tenantId !== undefined && heldBy(tenantId) + bytes > mostOfTenant ? 'share' : undefined;
    },
    add(tenantId, bytes) {
      left -= bytes;
      if (tenantId === undefined) return;
      const now = heldBy(tenantId) + bytes;
      if (now > 0) held.set(tenantId, now);
      else held.delete(tenantId);
    },
    holderOfMost() {
      let most = '';
      for (const tenantId of held.keys()) if (heldBy(tenantId) > heldBy(most)) most = tenantId;
      return most;
    },
  };
}
