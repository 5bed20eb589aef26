import { badRequest } from '../../core/errors.ts';
import { fromSessionSeq, type SessionPosition } from '../../core/session-position.ts';
import type { ApiContext } from './state.ts';

/** The position in a run's log from the client's `Last-Event-ID`; undefined without one. Throws 400. */
export function lastEventId(ctx: ApiContext): number | undefined {
  return numberIn(ctx, { of: 'run', most: 999_999_999 });
}

/**
 * The position on a thread from the client's `Last-Event-ID`; undefined without one. The number of a run alone, as release
 * 0.1 gave it, counts in the thread's first run: in another one the client might lack what it says it has. Throws 400.
 */
export function lastThreadEventId(ctx: ApiContext): SessionPosition | undefined {
  const given = numberIn(ctx, { of: 'thread', most: Number.MAX_SAFE_INTEGER });
  if (given === undefined) return undefined;
  const { place, seq } = fromSessionSeq(given);
  return { place: Math.max(1, place), seq };
}

function numberIn(ctx: ApiContext, { of, most }: { of: string; most: number }): number | undefined {
  const given = ctx.get('last-event-id').trim();
  if (given === '') return undefined;
  if (/^\d{1,16}$/.test(given) && Number(given) <= most) return Number(given);
  const message = `must be the id of an event of this ${of}, a whole number`;
  throw badRequest(`Last-Event-ID ${message}.`, [{ path: 'header.last-event-id', message }]);
}
