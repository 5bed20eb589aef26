/** A route as data: its input and output, in schemas that check requests and make `/openapi.json`. */
import type { Readable } from 'node:stream';
import type { Queue } from 'bullmq';
import { z } from 'zod';
import type { Scope } from '../../core/scopes.ts';
import type { Context } from '../../modules/governance/context.ts';
import type { Caller } from '../../core/caller.ts';
import type { Rate } from '../../core/rate-limits.ts';
import type { LiveSessions } from '../../modules/sessions/live-sessions.ts';
import type { Authenticator } from '../../modules/tenants/authenticate-key.ts';
import type { RateCounter } from '../../modules/tenants/rate-counter.ts';
import type { TokenScope } from '../../modules/tenants/tokens.ts';
import type { IdempotentRequest } from '../../modules/tenants/idempotency.ts';
import { readBody } from './body.ts';
import type { OpenCount } from './count-open.ts';
import type { SharedRoom } from './shared-room.ts';
import type { AnswerRoom } from './answer-room.ts';
import { withIds } from './external-ids.ts';
import { readMessage } from './json-rpc-body.ts';
import { withMetadata } from './metadata-filter.ts';
import { holdToRates } from './rate-limit.ts';
import type { Sockets } from './sockets.ts';
import type { ApiContext } from './state.ts';
import { checkParams, checkPart } from './validate.ts';

/**
 * - a scope: a key that has it;
 * - `any-key`: a key; `operator`: the default tenant's admin key;
 * - `open`: anybody; `loopback` and `loopback-operator`: anybody on this machine, else `any-key` or `operator`.
 */
export type Access = Scope | 'any-key' | 'operator' | 'open' | 'loopback' | 'loopback-operator';

/** Access for which the caller is always known. */
type KeyedAccess = Scope | 'any-key' | 'operator';

/** An answer other than JSON: `text/event-stream`, … */
export interface OtherContent {
  contentType: string;
  description: string;
  /** The same answer as JSON, if clients may ask for that. */
  json?: z.ZodType;
}

export interface Reply {
  status: number;
  /** JSON, text, a stream, or bytes that many answers share; nothing for 204. */
  body?: unknown;
  headers?: Record<string, string>;
  /** Whether it repeats the answer to an earlier request with this Idempotency-Key (`idempotently`). */
  replayed?: boolean;
}

type Schema = z.ZodType | undefined;
type Out<S extends Schema> = S extends z.ZodType ? z.output<S> : undefined;

/** A handler's input. `params`, `query` and `body` have passed their schemas. */
interface RouteRequest<P extends Schema, Q extends Schema, B extends Schema, A extends Access> {
  params: Out<P>;
  query: Out<Q>;
  body: Out<B>;
  caller: A extends KeyedAccess ? Caller : undefined;
  /** For `idempotently`: the route's path, and the request's key and body. */
  idempotency: A extends KeyedAccess ? IdempotentRequest : undefined;
  context: Context;
  app: AppParts;
  /** For anything else: headers such as `Prefer` and `Last-Event-ID`. */
  ctx: ApiContext;
}

interface RouteHead {
  method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** In the syntax of @koa/router: `/v1/agents/:id`. */
  path: string;
  summary: string;
  /** Changes what all workspaces of a tenant share: a key bound to one gets 403. */
  tenantWide?: boolean;
  /** The scope with which a token for the path's run replaces a key; absent: none does. */
  runToken?: TokenScope;
  /** The parameter `id` names a call, which `runToken` opens to tokens of its run or that run's thread. */
  namesCall?: true;
  /**
   * The same for tokens of a thread: the one that the parameter `param` names, or else that the handler finds. Routes
   * with `runToken` also take them for runs of their thread.
   */
  threadToken?: { scope: TokenScope; param?: 'thread' | 'id' };
  /** The token may be in the query, for `EventSource`, which cannot send headers. */
  tokenInQuery?: true;
  /** The body is a JSON-RPC message. */
  jsonRpc?: true;
  /** The body is not written for Drover: integers that would be rounded become strings, instead of 400. */
  keepsDigits?: true;
  /** The rates a request counts towards, by its body, valid or not; undefined if none could be read. */
  rates?: (caller: Caller, body: unknown) => Rate[];
  /** Takes `Idempotency-Key`. */
  idempotent?: boolean;
  /** The document also has its HEAD, which every GET answers. */
  documentsHead?: true;
  /** Takes `Prefer` (RFC 7240): `respond-async`, `wait=N`. */
  prefers?: true;
  /**
   * The body is `multipart/form-data` with one file, which `handle` reads itself within an upload's time; these are the
   * other fields.
   */
  upload?: z.ZodType;
  /** By status. Problems may be omitted. */
  responses: Record<number, z.ZodType | OtherContent | 'empty'>;
}

export interface RouteSpec<P extends Schema, Q extends Schema, B extends Schema, A extends Access> extends RouteHead {
  access: A;
  params?: P;
  query?: Q;
  body?: B;
  /** Throws for a request to refuse whatever its body: before that is read, if no key was required. */
  admit?: (request: { context: Context; params: Out<P> }) => Promise<void>;
  handle: (request: RouteRequest<P, Q, B, A>) => Promise<Reply>;
}

/** A route with its types erased. `run` checks a request, handles it and returns the answer. */
export interface Route extends RouteHead {
  access: Access;
  params: Schema;
  query: Schema;
  body: Schema;
  run: (incoming: Incoming) => Promise<Reply>;
}

interface Incoming {
  ctx: ApiContext;
  context: Context;
  app: AppParts;
  caller: Caller | undefined;
}

/** Parts of the application, made once by `createApp`. */
export interface AppParts {
  /** All routes. */
  routes: readonly Route[];
  /** Their OpenAPI document, as JSON. */
  description: () => Buffer;
  authenticator: Authenticator;
  /** For the requests of tenants, keys, users and sessions. */
  counter: RateCounter;
  liveSessions: LiveSessions;
  /** For bodies being read. */
  bodyRoom: SharedRoom;
  /** For answers that have not been taken. */
  answerRoom: AnswerRoom;
  /** Counts requests that stay open, by tenant. */
  open: OpenCount;
  /** The queues to show. */
  queues: readonly Queue[];
  /** Fires when the server stops, to end open streams. */
  closing: AbortSignal;
  /** Absent if requests cannot become WebSockets. */
  sockets: Sockets | undefined;
}

/** Reads the body and checks it against the schema. Throws 400. */
async function readChecked(
  read: () => Promise<unknown>,
  { body = NOTHING, jsonRpc }: { body?: Schema; jsonRpc?: true },
) {
  const check = (given: unknown) => checkPart(body, given, 'body');
  return jsonRpc ? readMessage(read, check) : check(await read());
}

/** Counts the request by its body before anything in it is refused; returns the body's reader. Throws 429. */
async function countByBody({ ctx, app, caller }: Incoming, route: RouteHead): Promise<() => Promise<unknown>> {
  const { rates, keepsDigits } = route;
  const read = () => readBody(ctx, { keepsDigits, room: app.bodyRoom.of(caller?.tenantId) });
  if (!rates || !caller) return read;
  const reading = read();
  const body = await reading.catch(() => undefined);
  await holdToRates(ctx, app.counter, rates(caller, body));
  return () => reading;
}

/** Makes a route. Unknown fields are refused with 400, malformed ids in the path with 404. */
export function defineRoute<
  A extends Access,
  P extends Schema = undefined,
  Q extends Schema = undefined,
  B extends Schema = undefined,
>(spec: RouteSpec<P, Q, B, A>): Route {
  const { handle, admit, ...head } = spec;
  const { params, query, body } = spec;
  const run = async (incoming: Incoming): Promise<Reply> => {
    const { ctx, context, app, caller } = incoming;
    const read = await countByBody(incoming, spec);
    const checked = await withIds(context, caller, async () => {
      const named = checkParams(params, ctx) as Out<P>;
      await admit?.({ context, params: named });
      return {
        params: named,
        query: checkPart(query ?? NOTHING, withMetadata(ctx.query), 'query'),
        body: spec.upload ? undefined : await readChecked(read, takesBody(spec) ? spec : {}),
      };
    });
    const idempotency = idempotencyOf(ctx, caller, { route: spec, ...checked });
    const request = { ...checked, caller, idempotency, context, app, ctx };
    return handle(request as unknown as RouteRequest<P, Q, B, A>);
  };
  return { ...head, params, query, body, run };
}

/** Whether it answers with server-sent events. */
export function showsEvents({ responses }: Pick<Route, 'responses'>): boolean {
  return Object.values(responses).some(
    (answer) => typeof answer === 'object' && 'contentType' in answer && answer.contentType === 'text/event-stream',
  );
}

/** Whether a body is a stream. */
export function isStream(body: unknown): body is Readable {
  return typeof body === 'object' && body !== null && 'pipe' in body;
}

const NOTHING = z.strictObject({});

function takesBody({ method }: Pick<RouteHead, 'method'>): boolean {
  return method === 'post' || method === 'put' || method === 'patch';
}

function idempotencyOf(
  ctx: ApiContext,
  caller: Caller | undefined,
  { route, params, body }: { route: Pick<RouteHead, 'method' | 'path'>; params: unknown; body: unknown },
): IdempotentRequest | undefined {
  if (!caller) return undefined;
  const named = (params ?? {}) as Record<string, string>;
  return {
    tenantId: caller.tenantId,
    // With ids, whichever names the request used.
    route: `${route.method.toUpperCase()} ${route.path.replaceAll(/:(\w+)/g, (_, name: string) => named[name] ?? '')}`,
    key: ctx.headers['idempotency-key'] === undefined ? undefined : ctx.get('idempotency-key'),
    // The workspace counts as part of the request, wherever it was named.
    body: { workspace_id: caller.workspaceId, body },
  };
}
