import { newId, newRandomId } from '../../lib/new-id.ts';
import type { Context } from '../../modules/governance/context.ts';
import type { Middleware } from './state.ts';

const UNMATCHED = '(none)';

/**
 * Gives each request an id and a trace, which the answer repeats; measures it, and logs one line when the response has
 * closed. Never logs paths, bodies or keys.
 */
export function observe({ log, metrics }: Pick<Context, 'log' | 'metrics'>): Middleware {
  return async (ctx, next) => {
    const startedMs = performance.now();
    const requestId = readRequestId(ctx.get('x-request-id'));
    const traceparent = continueTrace(ctx.get('traceparent'));
    ctx.state.requestId = requestId;
    ctx.state.traceparent = traceparent;
    ctx.set('X-Request-Id', requestId);
    ctx.set('traceparent', traceparent);
    ctx.res.once('close', () => {
      log.info(
        {
          method: ctx.method,
          route: ctx.state.route ?? UNMATCHED,
          status: ctx.status,
          ms: Math.round(performance.now() - startedMs),
          tenant: ctx.state.caller?.tenantId,
          run: ctx.state.run,
          turn: ctx.state.turn,
          request_id: requestId,
          trace_id: traceparent.split('-')[1],
          ...(ctx.res.writableFinished ? {} : { disconnected: true }),
        },
        'request',
      );
    });
    await next();
    const labels = { method: ctx.method, route: ctx.state.route ?? UNMATCHED, status: String(ctx.status) };
    metrics.httpSeconds.observe(labels, (performance.now() - startedMs) / 1000);
  };
}

function readRequestId(given: string): string {
  return /^[\w.:@/+=-]{1,128}$/.test(given) ? given : newId();
}

/** Continues a valid W3C `traceparent` with a new span, else starts a sampled trace. */
export function continueTrace(given: string): string {
  const [, version, trace, span, flags, rest] =
    /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/.exec(given) ?? [];
  const valid = trace !== undefined && version !== 'ff' && !(version === '00' && rest !== undefined);
  const usable = valid && !/^0+$/.test(trace) && !/^0+$/.test(span ?? '');
  const newSpan = newRandomId(8);
  return usable ? `00-${trace}-${newSpan}-${flags ?? '01'}` : `00-${newRandomId(16)}-${newSpan}-01`;
}
