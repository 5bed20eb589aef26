import type { ServerResponse } from 'node:http';
import { unavailable } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { countBytes } from './shared-room.ts';

/** The memory of a process for answers that their clients have not taken yet. */
export interface AnswerRoom {
  /**
   * Takes room until the response is closed. Where there is none, a request that only reads gets 503. Any other has had its
   * effect, which a 503 would deny: it is answered, and others are cut off, which wait for longest.
   */
  hold(response: ServerResponse, held: { tenantId: string; bytes: number }): void;
}

interface Unread {
  tenantId: string;
  bytes: number;
  response: ServerResponse;
  onlyReads: boolean;
}

const FULL = {
  all: 'Too many answers wait here to be read, so there is no room for this one; the request may be sent again.',
  share:
    'Too many answers to the tenant wait here to be read, so there is no room for this one; the request may be sent again.',
};

/** Room for so many bytes. */
export function createAnswerRoom(mostBytes: number = LIMITS.answerBytesAtOnce): AnswerRoom {
  const count = countBytes({ mostBytes, sharePercent: LIMITS.tenantAnswerSharePercent });
  /** By tenant, the oldest first. */
  const unread = new Map<string, Set<Unread>>();
  const unreadOf = (tenantId: string) => unread.get(tenantId) ?? new Set<Unread>();
  const keep = (one: Unread): void => {
    unread.set(one.tenantId, unreadOf(one.tenantId).add(one));
    count.add(one.tenantId, one.bytes);
    one.response.once('close', () => forget(one));
  };
  const forget = (one: Unread): void => {
    const theirs = unreadOf(one.tenantId);
    // One that was cut off is forgotten before it has closed.
    if (!theirs.delete(one)) return;
    if (theirs.size === 0) unread.delete(one.tenantId);
    count.add(one.tenantId, -one.bytes);
  };
  const cutOffOthers = ({ tenantId, bytes }: Unread): void => {
    for (;;) {
      const full = count.fullFor(tenantId, bytes);
      // The tenant that holds most has taken the room from the others.
      const chosen = full && oldest(unreadOf(full === 'share' ? tenantId : count.holderOfMost()));
      if (!chosen) return;
      forget(chosen);
      chosen.response.destroy();
    }
  };
  return {
    hold(response, { tenantId, bytes }) {
      const onlyReads = ['GET', 'HEAD'].includes(response.req.method ?? '');
      const one = { tenantId, bytes, response, onlyReads };
      const full = onlyReads && count.fullFor(tenantId, bytes);
      if (full) throw unavailable(FULL[full]);
      cutOffOthers(one);
      keep(one);
    },
  };
}

/** One that only reads, if there is any, since that may be sent again. */
function oldest(waiting: Set<Unread>): Unread | undefined {
  const [first] = waiting;
  for (const one of waiting) if (one.onlyReads) return one;
  return first;
}
