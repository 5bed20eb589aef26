import { unavailable } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';

/** The memory of a process for incoming data of all clients together. */
export interface BodyRoom {
  /** Throws 503 if so many bytes do not fit. */
  require(bytes: number): void;
  /** Takes room, which the caller gives back. Throws 503 if there is none. */
  take(bytes: number): void;
  give(bytes: number): void;
}

/** Room for so many bytes. */
export function createBodyRoom(mostBytes: number = LIMITS.bodyBytesAtOnce): BodyRoom {
  let left = mostBytes;
  const require = (bytes: number): void => {
    if (bytes > left) throw unavailable('Too much is being sent here at the time; the request may be sent again.');
  };
  return {
    require,
    take(bytes) {
      require(bytes);
      left -= bytes;
    },
    give(bytes) {
      left += bytes;
    },
  };
}
