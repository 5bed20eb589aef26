/**
 * Polls the database for everything that waits in this process, mostly streams: one statement every few seconds, however many
 * there are. Finds what the bus has failed to tell.
 */
import type { Bus } from '../../bus/bus.ts';
import { LIMITS } from '../../core/limits.ts';
import { readPositions, type Position } from '../../db/open-streams.ts';
import type { ProcessContext } from '../process-context.ts';

/** What can be watched; `db/open-streams.ts` returns the positions. */
export interface WatchedThing {
  kind: 'run' | 'thread' | 'key';
  id: string;
}

/** Called with the position after each poll: `Infinity` if it is over. */
type Listener = (position: number) => void;

export interface PositionWatch {
  /** Reports a position every few seconds, and after a gap of the bus. Returns a function to stop. */
  watch: (thing: WatchedThing, listener: Listener) => () => void;
}

/** Uses neither timer nor listener while nothing is watched. */
export function createPositionWatch({ db, bus, log }: Pick<ProcessContext, 'db' | 'bus' | 'log'>): PositionWatch {
  const listeners = new Map<string, Set<Listener>>();
  let stop: (() => void) | undefined;

  const look = async () => {
    const ids = (kind: WatchedThing['kind']) =>
      [...listeners.keys()].flatMap((key) => (key.startsWith(`${kind} `) ? [key.slice(kind.length + 1)] : []));
    const watched = { runs: ids('run'), threads: ids('thread'), keys: ids('key') };
    const tell = ({ kind, id, position, is_over }: Position) =>
      listeners.get(`${kind} ${id}`)?.forEach((listener) => listener(is_over ? Infinity : position));
    try {
      (await db.asMaintenance((tx) => readPositions(tx, watched))).forEach(tell);
    } catch (error) {
      // Streams stay open while the database is unavailable; there is nothing to show.
      log.warn({ err: error }, 'a look for open streams failed');
    }
  };

  return {
    watch({ kind, id }, listener) {
      const key = `${kind} ${id}`;
      const own: Listener = (position) => listener(position);
      listeners.set(key, (listeners.get(key) ?? new Set()).add(own));
      stop ??= lookAgainAndAgain(look, bus);
      return () => {
        const left = listeners.get(key);
        left?.delete(own);
        if (left?.size === 0) listeners.delete(key);
        if (listeners.size > 0) return;
        stop?.();
        stop = undefined;
      };
    },
  };
}

/** Polls one at a time; a request during a poll causes another one after it. Returns a function to stop. */
function lookAgainAndAgain(look: () => Promise<void>, bus: Bus): () => void {
  let isLooking = false;
  let isAsked = false;
  const now = async () => {
    isAsked = true;
    if (isLooking) return;
    isLooking = true;
    while (isAsked) {
      isAsked = false;
      await look();
    }
    isLooking = false;
  };
  const timer = setInterval(() => void now(), LIMITS.streamPollSeconds * 1000);
  timer.unref();
  const stopGap = bus.onGap(() => void now());
  return () => {
    clearInterval(timer);
    stopGap();
  };
}
