import type { Readable } from 'node:stream';
import { Router } from '@koa/router';
import Koa from 'koa';
import { z } from 'zod';
import { DroverError } from '../core/errors.ts';
import type { Context } from '../modules/governance/context.ts';
import { CONTRACTS } from '../jobs/contracts.ts';
import { createAuthenticator } from '../modules/tenants/authenticate-key.ts';
import { queueBoard } from './admin/queue-board.ts';
import { frontPage } from './front-page.ts';
import type { AnswerRoom } from './kit/answer-room.ts';
import { authenticate } from './kit/authenticate.ts';
import { checkRequest } from './kit/check-request.ts';
import { cors } from './kit/cors.ts';
import { describeOnce } from './kit/openapi.ts';
import { holdAnswer } from './kit/hold-answer.ts';
import { observe } from './kit/observe.ts';
import { countOpenRequests, holdOpen } from './kit/open-requests.ts';
import { handleErrors } from './kit/problems.ts';
import { isStream } from './kit/route.ts';
import type { Reply, Route } from './kit/route.ts';
import { securityHeaders } from './kit/security-headers.ts';
import type { Sockets } from './kit/sockets.ts';
import type { ApiContext, ApiState, App, Middleware } from './kit/state.ts';
import type { AppParts } from './kit/route.ts';
import { shortPath } from '../modules/problem-of.ts';

/**
 * Makes the HTTP application. `closing` fires when the server stops, to end streams; without `sockets` there are no
 * WebSockets.
 */
export function createApp(
  context: Context,
  routes: readonly Route[],
  {
    sockets,
    ...own
  }: Pick<AppParts, 'closing' | 'counter' | 'liveSessions' | 'bodyRoom' | 'answerRoom'> & { sockets?: Sockets },
): App {
  const parts: AppParts = {
    routes,
    description: describeOnce(routes),
    authenticator: createAuthenticator(context.db),
    open: countOpenRequests(),
    queues: CONTRACTS.map(({ name }) => context.queues.queue(name)),
    ...own,
    sockets,
  };
  const app = new Koa<ApiState>();
  app.on('error', (error: unknown) => {
    if (!isDisconnect(error)) context.log.error({ err: error }, 'an answer broke off');
  });
  app.use(observe(context));
  app.use(securityHeaders());
  app.use(cors(context.config.corsOrigins));
  app.use(handleErrors(context));
  app.use(checkRequest());
  app.use(frontPage());
  app.use(queueBoard(context, parts));
  app.use(refuseUnmatched());
  app.use(routeRequests(context, parts));
  return app;
}

/** Whose share of a room those of no tenant have together. */
const NOBODY = 'nobody';

/** Uses one router per form of path: a single router would try all two hundred paths at each request. */
function routeRequests(context: Context, parts: AppParts): Middleware {
  const routers = new Map<string, Router<ApiState>>();
  for (const route of parts.routes) {
    const form = formOf(route.path);
    const router = routers.get(form) ?? new Router<ApiState>({ sensitive: true });
    routers.set(form, router);
    addRoute(router, route, { context, parts });
  }
  const answers = new Map([...routers].map(([form, router]) => [form, answerBy(router)]));
  return (ctx, next) => (answers.get(formOf(ctx.path)) ?? next)(ctx, next);
}

function answerBy(router: Router<ApiState>): Middleware {
  const [handle, refuseMethod] = [router.routes(), router.allowedMethods()];
  return (koaContext, next) => {
    const ctx = koaContext as ApiContext;
    return handle(ctx, () => refuseMethod(ctx, next));
  };
}

/** A path's fixed beginning (`/v1/runs` of `/v1/runs/:run`), where no route has parameters, and its number of parts. */
function formOf(path: string): string {
  const section = /^(?:\/v1)?\/[^/]*/.exec(path)?.[0] ?? '';
  let parts = path.endsWith('/') ? -1 : 0;
  for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) parts += 1;
  return `${section} ${parts}`;
}

function addRoute(
  router: Router<ApiState>,
  route: Route,
  { context, parts }: { context: Context; parts: AppParts },
): void {
  router[route.method](route.path, async (ctx: ApiContext) => {
    ctx.state.route = route.path;
    // Ids only: a path may hold anything.
    Object.assign(ctx.state, idsIn(ctx.params));
    const caller = await authenticate(ctx, route, { ...parts, ...context });
    if (caller) holdOpen(ctx, route, { caller, open: parts.open });
    const reply = await route.run({ ctx, context, app: parts, caller });
    present(ctx, reply, { room: parts.answerRoom, tenantId: caller?.tenantId ?? NOBODY });
  });
}

const uuid = z.uuid();

function idsIn({ run, turn }: Record<string, string | undefined>): { run?: string; turn?: string } {
  const isId = (text: string | undefined): text is string => text !== undefined && uuid.safeParse(text).success;
  return { ...(isId(run) && { run }), ...(isId(turn) && { turn }) };
}

interface AnswerTo {
  room: AnswerRoom;
  tenantId: string;
}

/** Throws 503, with nothing presented, if a request only reads and there is no room for the answer. */
function present(ctx: ApiContext, reply: Reply, to: AnswerTo): void {
  const content = contentOf(ctx, reply.body, to);
  // Without a body, Koa would send the status text.
  if (content === undefined) ctx.body = null;
  ctx.status = reply.status;
  if (reply.headers) ctx.set(reply.headers);
  if (reply.replayed === true) ctx.set('Idempotent-Replayed', 'true');
  if (content === undefined) return;
  ctx.body = content;
  const isJson = typeof reply.body !== 'string' && content !== reply.body;
  if (isJson && reply.headers?.['content-type'] === undefined) ctx.type = 'application/json';
}

function contentOf(ctx: ApiContext, body: unknown, to: AnswerTo): Readable | Buffer | string | undefined {
  if (body === undefined || isStream(body) || Buffer.isBuffer(body)) return body;
  return holdAnswer(typeof body === 'string' ? body : JSON.stringify(body), ctx.res, to);
}

/** Answers unmatched requests with a problem, too. */
function refuseUnmatched(): Middleware {
  return async (ctx, next) => {
    await next();
    if (ctx.state.route !== undefined || ctx.status < 400) return;
    const { allow: allowed } = ctx.response.headers;
    if (allowed === undefined)
      throw new DroverError('not-found', 404, `There is no ${shortPath(ctx.path)}; /openapi.json lists what there is.`);
    throw new DroverError('method-not-allowed', 405, `${shortPath(ctx.path)} takes ${allowed}, not ${ctx.method}.`);
  };
}

/** Whether the client has just gone away, which is no fault. */
function isDisconnect(error: unknown): boolean {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined;
  return code === 'ERR_STREAM_PREMATURE_CLOSE' || code === 'ECONNRESET' || code === 'EPIPE';
}
