import { formatTraceparent, parseTraceparent } from '../../core/trace-context.ts';
import { newId, newRandomId } from '../../lib/new-id.ts';
import type { Context } from '../../modules/governance/context.ts';
import type { Middleware } from './state.ts';

const UNMATCHED = '(none)';
const PROBES = ['/healthz', '/readyz', '/metrics'];

/**
 * Gives each request an id and a trace, which the answer repeats; measures it, and logs one line when the response has
 * closed. Never logs paths, bodies or keys.
 */
export function observe({ log, metrics, traces }: Pick<Context, 'log' | 'metrics' | 'traces'>): Middleware {
  return async (ctx, next) => {
    const startedMs = performance.now();
    const requestId = readRequestId(ctx.get('x-request-id'));
    const given = ctx.get('traceparent');
    const span = traces?.beginRequest({ traceparent: given, method: ctx.method });
    const traceparent = span?.traceparent ?? continueTrace(given);
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
      const { route, run, turn, caller } = ctx.state;
      // Whoever asks for health does so all the time.
      if (route !== undefined && PROBES.includes(route)) return;
      const ids = { 'drover.request.id': requestId, 'drover.run.id': run, 'drover.turn.id': turn };
      span?.end({ route, status: ctx.status, attributes: { ...ids, 'drover.tenant.id': caller?.tenantId } });
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
  const parent = parseTraceparent(given);
  const spanId = newRandomId(8);
  return formatTraceparent(parent ? { ...parent, spanId } : { traceId: newRandomId(16), spanId, flags: '01' });
}
