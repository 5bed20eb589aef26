import { badRequest } from '../../core/errors.ts';
import type { ApiContext } from './state.ts';

/** The position in a run's log from the client's `Last-Event-ID`; undefined without one. Throws 400. */
export function lastEventId(ctx: ApiContext): number | undefined {
  const given = ctx.get('last-event-id').trim();
  if (given === '') return undefined;
  if (/^\d{1,9}$/.test(given)) return Number(given);
  const message = 'must be the id of an event of this run, a whole number';
  throw badRequest(`Last-Event-ID ${message}.`, [{ path: 'header.last-event-id', message }]);
}
