import { badRequest } from '../../core/errors.ts';
import { fromSessionSeq, toSessionSeq, type SessionPosition } from '../../core/session-position.ts';
import type { ApiContext } from './state.ts';

/** The position in a run's log from the client's `Last-Event-ID`; undefined without one. Throws 400. */
export function lastEventId(ctx: ApiContext): number | undefined {
  return numberIn(ctx, { of: 'run', most: 999_999_999 });
}

/** The id of an event on a thread. In the thread's first run it is the sequence number in the log. */
export function threadEventId({ place, seq }: SessionPosition): number {
  return toSessionSeq({ place: place - 1, seq });
}

/** The position on a thread from the client's `Last-Event-ID`; undefined without one. Throws 400. */
export function lastThreadEventId(ctx: ApiContext): SessionPosition | undefined {
  const given = numberIn(ctx, { of: 'thread', most: Number.MAX_SAFE_INTEGER });
  return given === undefined ? undefined : positionOfThreadEvent(given);
}

/** The position that such an id names. */
export function positionOfThreadEvent(id: number): SessionPosition {
  const { place, seq } = fromSessionSeq(id);
  return { place: place + 1, seq };
}

function numberIn(ctx: ApiContext, { of, most }: { of: string; most: number }): number | undefined {
  const given = ctx.get('last-event-id').trim();
  if (given === '') return undefined;
  if (/^\d{1,16}$/.test(given) && Number(given) <= most) return Number(given);
  const message = `must be the id of an event of this ${of}, a whole number`;
  throw badRequest(`Last-Event-ID ${message}.`, [{ path: 'header.last-event-id', message }]);
}
