/** Requests that stay open, for each tenant: streams, WebSockets, and those that wait for a turn. */
import type { Caller } from '../../core/caller.ts';
import { DroverError } from '../../core/errors.ts';
import { countOpen, type OpenCount } from './count-open.ts';
import { preferredWaitMs } from './prefer.ts';
import { showsEvents, type Route } from './route.ts';
import type { ApiContext } from './state.ts';

/** For all tenants of a process. */
export function countOpenRequests(): OpenCount {
  return countOpen((most) => {
    const detail = `The tenant has ${most} streams, WebSockets and waiting requests open here already.`;
    return new DroverError('too-many-open', 429, detail, { retryAfterSeconds: 10, extra: { limit: most } });
  });
}

/** Counts a request that can stay open until it is over. Throws 429 if its tenant has too many. */
export function holdOpen(ctx: ApiContext, route: Route, { caller, open }: { caller: Caller; open: OpenCount }): void {
  const { tenantId, quotas } = caller;
  // Of a client that has left already no event would tell.
  if (quotas.openRequests === null || ctx.req.socket.destroyed || !canStayOpen(ctx, route)) return;
  open.take(tenantId, quotas.openRequests);
  ctx.res.once('close', () => open.give(tenantId));
}

function canStayOpen(ctx: ApiContext, route: Route): boolean {
  if (route.prefers) return preferredWaitMs(ctx.get('prefer')) > 0;
  return 101 in route.responses || showsEvents(route);
}
