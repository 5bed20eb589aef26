/** A route as data: what it takes and gives, in schemas that check requests and make `/openapi.json`. */
import type { Readable } from 'node:stream';
import type { Queue } from 'bullmq';
import { z } from 'zod';
import type { Scope } from '../../core/scopes.ts';
import type { Context } from '../../modules/governance/context.ts';
import type { Caller } from '../../core/caller.ts';
import type { Rate } from '../../core/rate-limits.ts';
import type { LiveSessions } from '../../modules/sessions/live-state.ts';
import type { Authenticator } from '../../modules/tenants/authenticate-key.ts';
import type { RateCounter } from '../../modules/tenants/rate-counter.ts';
import type { TokenScope } from '../../modules/tenants/tokens.ts';
import type { IdempotentRequest } from '../../modules/tenants/idempotency.ts';
import { readBody } from './body.ts';
import type { BodyRoom } from './body-room.ts';
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

/** Access that leaves no doubt who is calling. */
type KeyedAccess = Scope | 'any-key' | 'operator';

/** An answer that is no JSON: `text/event-stream`, … */
export interface OtherContent {
  contentType: string;
  description: string;
  /** The answer as JSON, where that may be asked for instead. */
  json?: z.ZodType;
}

export interface Reply {
  status: number;
  /** JSON, text, or a stream; nothing for 204. */
  body?: unknown;
  headers?: Record<string, string>;
  /** The answer of an earlier request with this Idempotency-Key (`idempotently`). */
  replayed?: boolean;
}

type Schema = z.ZodType | undefined;
type Out<S extends Schema> = S extends z.ZodType ? z.output<S> : undefined;

/** What a handler gets. `params`, `query` and `body` have passed their schemas. */
interface RouteRequest<P extends Schema, Q extends Schema, B extends Schema, A extends Access> {
  params: Out<P>;
  query: Out<Q>;
  body: Out<B>;
  caller: A extends KeyedAccess ? Caller : undefined;
  /** For `idempotently`: this route's path, this request's key and body. */
  idempotency: A extends KeyedAccess ? IdempotentRequest : undefined;
  context: Context;
  app: AppParts;
  /** For what is not in the other fields: headers such as `Prefer` and `Last-Event-ID`. */
  ctx: ApiContext;
}

interface RouteHead {
  method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** As @koa/router reads it: `/v1/agents/:id`. */
  path: string;
  summary: string;
  /** Changes what all workspaces of the tenant share: a key that is bound to one gets 403. */
  tenantWide?: boolean;
  /** What a token for the run of the path must be for to stand in for a key; absent: no token does. */
  runToken?: TokenScope;
  /** The parameter `id` names a call: `runToken` opens it where its run's token, or that of its thread, is held. */
  namesCall?: true;
  /**
   * The same of a token for a thread, which the parameter `param` names, or else what the handler asks for it. Routes with
   * `runToken` are open to it for the runs of its thread.
   */
  threadToken?: { scope: TokenScope; param?: 'thread' | 'id' };
  /** Such a token may stand in the query, for `EventSource`, which sends no headers. */
  tokenInQuery?: true;
  /** The body is a message of JSON-RPC. */
  jsonRpc?: true;
  /** The body is not written for Drover: integers in it that would be rounded come as strings of their digits, in place of 400. */
  keepsDigits?: true;
  /** What a request counts towards by its body, be that of a valid form or not; undefined: none could be read. */
  rates?: (caller: Caller, body: unknown) => Rate[];
  /** Takes `Idempotency-Key`. */
  idempotent?: boolean;
  /** Takes `Prefer` (RFC 7240): `respond-async`, `wait=N`. */
  prefers?: true;
  /** The body is `multipart/form-data` with one file, which `handle` reads itself, and has as long as an upload may take; these are its other fields. */
  upload?: z.ZodType;
  /** By status. Problems need not be named. */
  responses: Record<number, z.ZodType | OtherContent | 'empty'>;
}

export interface RouteSpec<P extends Schema, Q extends Schema, B extends Schema, A extends Access> extends RouteHead {
  access: A;
  params?: P;
  query?: Q;
  body?: B;
  /** Throws for a request that is refused whatever its body: before that is read, where nobody had to show a key. */
  admit?: (request: { context: Context; params: Out<P> }) => Promise<void>;
  handle: (request: RouteRequest<P, Q, B, A>) => Promise<Reply>;
}

/** A route whose types are its own affair. `run` checks the request, handles it and gives the answer. */
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

/** What belongs to the application as a whole, made once by `createApp`. */
export interface AppParts {
  /** Every route there is. */
  routes: readonly Route[];
  authenticator: Authenticator;
  /** Of what tenants, keys, users and sessions ask for. */
  counter: RateCounter;
  liveSessions: LiveSessions;
  /** For the bodies that are being read. */
  bodyRoom: BodyRoom;
  /** The queues to look at. */
  queues: readonly Queue[];
  /** Fires when the server stops: what would stay open ends then. */
  closing: AbortSignal;
  /** Where requests can become WebSockets. */
  sockets: Sockets | undefined;
}

/** The body, which fits its schema. Throws 400. */
async function readChecked(
  read: () => Promise<unknown>,
  { body = NOTHING, jsonRpc }: { body?: Schema; jsonRpc?: true },
) {
  const check = (given: unknown) => checkPart(body, given, 'body');
  return jsonRpc ? readMessage(read, check) : check(await read());
}

/** Counts the request by its body before anything of it is refused; gives what reads that body. Throws 429. */
async function countByBody({ ctx, app, caller }: Incoming, route: RouteHead): Promise<() => Promise<unknown>> {
  const { rates, keepsDigits } = route;
  const read = () => readBody(ctx, { keepsDigits, room: app.bodyRoom });
  if (!rates || !caller) return read;
  const reading = read();
  const body = await reading.catch(() => undefined);
  await holdToRates(ctx, app.counter, rates(caller, body));
  return () => reading;
}

/** Makes a route. Fields that no schema names are refused with 400, ids that are none with 404. */
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
        body: takesBody(spec) ? await readChecked(read, spec) : undefined,
      };
    });
    const idempotency = idempotencyOf(ctx, caller, { route: spec, ...checked });
    const request = { ...checked, caller, idempotency, context, app, ctx };
    return handle(request as unknown as RouteRequest<P, Q, B, A>);
  };
  return { ...head, params, query, body, run };
}

/** A body that is sent piece by piece. */
export function isStream(body: unknown): body is Readable {
  return typeof body === 'object' && body !== null && 'pipe' in body;
}

const NOTHING = z.strictObject({});

function takesBody({ method, upload }: Pick<RouteHead, 'method' | 'upload'>): boolean {
  if (upload) return false;
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
    // By ids, in whatever way the request has named what they are of.
    route: `${route.method.toUpperCase()} ${route.path.replaceAll(/:(\w+)/g, (_, name: string) => named[name] ?? '')}`,
    key: ctx.headers['idempotency-key'] === undefined ? undefined : ctx.get('idempotency-key'),
    // The workspace is part of what was asked for, wherever it was said.
    body: { workspace_id: caller.workspaceId, body },
  };
}
