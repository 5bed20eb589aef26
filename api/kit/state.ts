import type { RouterContext } from '@koa/router';
import type Koa from 'koa';
import type { Caller } from '../../core/caller.ts';

/** What the middleware knows of a request (`ctx.state`). */
export interface ApiState {
  requestId: string;
  /** W3C trace context: the caller's trace, or a new one, with this request as parent. */
  traceparent: string;
  /** The matching route's pattern, for logs and metrics: the path itself may hold a secret. */
  route?: string;
  caller?: Caller;
  /** Number of characters in the body that had to be replaced; absent if none. */
  replaced?: number;
  /** The body with these characters; absent if none. */
  given?: unknown;
  /** The request's run and turn, for the log. */
  run?: string;
  turn?: string;
}

export type App = Koa<ApiState>;
export type ApiContext = RouterContext<ApiState>;
export type Middleware = Koa.Middleware<ApiState>;
