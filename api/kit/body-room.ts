import { unavailable } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';

/** The memory of a process for incoming data of all clients together. */
export interface SharedRoom {
  /** The room as a tenant has it: no more than its share, and all of it if a request is of no tenant. */
  of(tenantId: string | undefined): BodyRoom;
}

export interface BodyRoom {
  /** Throws 503 if so many bytes do not fit. */
  require(bytes: number): void;
  /** Takes room, which the caller gives back. Throws 503 if there is none. */
  take(bytes: number): void;
  give(bytes: number): void;
}

/** Room for so many bytes. */
export function createBodyRoom(mostBytes: number = LIMITS.bodyBytesAtOnce): SharedRoom {
  const mostOfTenant = (mostBytes * LIMITS.tenantBodySharePercent) / 100;
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
        if (bytes > left) throw unavailable('Too much is being sent here at the time; the request may be sent again.');
        if (tenantId !== undefined && heldBy(tenantId) + bytes > mostOfTenant)
          throw unavailable('The tenant is sending too much here at the time; the request may be sent again.');
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
