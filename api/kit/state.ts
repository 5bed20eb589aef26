import type { RouterContext } from '@koa/router';
import type Koa from 'koa';
import type { Caller } from '../../core/caller.ts';

/** What the middleware knows of a request, in `ctx.state`. */
export interface ApiState {
  requestId: string;
  /** W3C trace context: the caller's trace, or a new one, with this request as the parent of what follows. */
  traceparent: string;
  /** The route's pattern, once one has matched: what logs and metrics name, since a path may hold a secret. */
  route?: string;
  caller?: Caller;
  /** Characters of the body that could not be kept; absent where that is none. */
  replaced?: number;
  /** The run and the turn that the request is about, for the log. */
  run?: string;
  turn?: string;
}

export type App = Koa<ApiState>;
export type ApiContext = RouterContext<ApiState>;
export type Middleware = Koa.Middleware<ApiState>;
