import type { RouterContext } from '@koa/router';
import type { Queue } from 'bullmq';
import type Koa from 'koa';
import type { Caller } from '../../core/caller.ts';
import type { Authenticator } from '../../modules/tenants/authenticate-key.ts';
import type { Route } from './route.ts';

/** What the middleware knows of a request, in `ctx.state`. */
export interface ApiState {
  requestId: string;
  /** W3C trace context: the caller's trace, or a new one, with this request as the parent of what follows. */
  traceparent: string;
  /** The route's pattern, once one has matched: what logs and metrics name, since a path may hold a secret. */
  route?: string;
  caller?: Caller;
  /** The run and the turn that the request is about, for the log. */
  run?: string;
  turn?: string;
}

export type App = Koa<ApiState>;
export type ApiContext = RouterContext<ApiState>;
export type Middleware = Koa.Middleware<ApiState>;

/** What belongs to the application as a whole, made once by `createApp`. */
export interface AppParts {
  /** Every route there is. */
  routes: readonly Route[];
  authenticator: Authenticator;
  /** The queues to look at. */
  queues: readonly Queue[];
  /** Fires when the server stops: what would stay open ends then. */
  closing: AbortSignal;
}
