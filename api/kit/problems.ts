/** The one place that turns errors into answers: RFC 9457, `application/problem+json`. */
import { STATUS_CODES } from 'node:http';
import { z } from 'zod';
import { DroverError, unavailable } from '../../core/errors.ts';
import { UnknownEventError } from '../../core/events.ts';
import { problemOf } from '../../modules/problem-of.ts';
import { asUnavailable } from '../../modules/unavailable.ts';
import type { Context } from '../../modules/governance/context.ts';
import type { ApiContext, Middleware } from './state.ts';

export const problem = z
  .looseObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    instance: z.string(),
    code: z.string().describe('Stable name of the error.'),
    request_id: z.string(),
    errors: z.array(z.strictObject({ path: z.string(), message: z.string() })).optional(),
  })
  .meta({ id: 'Problem', description: 'RFC 9457' });

/** Answers errors of the inner middleware with a problem. Foreign errors are logged, not shown. */
export function handleErrors(context: Pick<Context, 'log'>): Middleware {
  return async (ctx, next) => {
    try {
      await next();
    } catch (thrown) {
      const error = asDroverError(thrown);
      if (error.status >= 500) logFault(context, ctx as ApiContext, thrown);
      answerProblem(ctx as ApiContext, error);
    }
  };
}

function answerProblem(ctx: ApiContext, error: DroverError): void {
  ctx.status = error.status;
  if (error.retryAfterSeconds !== undefined) ctx.set('Retry-After', String(error.retryAfterSeconds));
  ctx.body = JSON.stringify(problemOf(error, { path: ctx.path, requestId: ctx.state.requestId }));
  ctx.type = 'application/problem+json';
}

function asDroverError(thrown: unknown): DroverError {
  if (thrown instanceof DroverError) return thrown;
  const away = asUnavailable(thrown);
  if (away) return away;
  if (thrown instanceof UnknownEventError) {
    return unavailable(
      'A newer version of Drover has written this run; a process of that version can read it.',
      thrown,
    );
  }
  const refused = refusalOf(thrown);
  if (refused) return refused;
  return new DroverError('internal', 500, 'Something went wrong here; the log has it under the request id.', {
    cause: thrown,
  });
}

/** A refusal by Koa's own middleware (`http-errors`), such as for a file outside its folder. */
function refusalOf(thrown: unknown): DroverError | undefined {
  if (!(thrown instanceof Error && 'expose' in thrown && thrown.expose === true && 'status' in thrown))
    return undefined;
  const status = Number(thrown.status);
  if (!(status >= 400 && status < 500)) return undefined;
  const title = STATUS_CODES[status] ?? 'Bad Request';
  return new DroverError(title.toLowerCase().replaceAll(' ', '-'), status, `${title}.`, { cause: thrown });
}

function logFault(context: Pick<Context, 'log'>, ctx: ApiContext, thrown: unknown): void {
  const { requestId, route } = ctx.state;
  context.log.error({ err: thrown, request_id: requestId, method: ctx.method, route }, 'request failed');
}
