import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { ROUTES } from '../../api/routes.ts';
import { serve } from '../../api/serve.ts';
import type { Route } from '../../api/kit/route.ts';
import type { Context } from '../../modules/governance/context.ts';
import { createTestServices } from './database.ts';
import { DOMAIN_MODE, TEST_REDIS_URL, type Mode } from './modes.ts';
import { openTestPlatform } from './platform.ts';
import { openServiceProxy, type ServiceProxy } from '../../scripts/kit/service-proxy.ts';

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests say themselves what they expect of an answer
  json: any;
}

export interface Call {
  /** Another key than the operator's; null: none. */
  key?: string | null;
  body?: unknown;
  /** Sent as it is, in place of `body`. */
  raw?: string | Buffer;
  headers?: Record<string, string>;
  redirect?: 'manual';
}

export interface TestApi {
  url: string;
  /** The operator's. */
  key: string;
  context: Context;
  /** Log lines so far. */
  log: Record<string, unknown>[];
  /** With `proxied`: what stands before Postgres and Redis. */
  database: ServiceProxy | undefined;
  redis: ServiceProxy | undefined;
  call(method: string, path: string, call?: Call): Promise<Answer>;
  /** A new tenant's admin key. */
  newTenant(): Promise<{ id: string; key: string; workspace_id: string }>;
  close(): Promise<void>;
}

interface TestApiOptions {
  env?: Record<string, string>;
  routes?: readonly Route[];
  /** Postgres and Redis can be made to go away. */
  proxied?: boolean;
  /** Workers will start beside it. */
  forWorkers?: boolean;
}

/** The whole API on a database of its own, on a free port. */
export async function startTestApi(
  mode: Mode = DOMAIN_MODE,
  { env = {}, routes = ROUTES, proxied = false, forWorkers = false }: TestApiOptions = {},
): Promise<TestApi> {
  const services = await createTestServices(mode, { forWorkers });
  const proxies =
    proxied && services.url !== undefined
      ? [await openServiceProxy(services.url), await openServiceProxy(TEST_REDIS_URL ?? services.url)]
      : [];
  const [database, redis] = proxies;
  const platform = await openTestPlatform(mode, {
    services,
    env: {
      ...(database && { DATABASE_URL: database.url }),
      ...(redis && mode === 'full' && { REDIS_URL: redis.url }),
      ...env,
    },
  });
  const { context, log, apiKey: key } = platform;
  const api = await serve(context, routes, { host: '127.0.0.1', port: 0 });
  const call = async (method: string, path: string, options: Call = {}) => {
    const answer = await request(`${api.url}${path}`, method, { key, ...options });
    assertAsDescribed(routes, `${method} ${path}`, answer);
    return answer;
  };
  return {
    url: api.url,
    key,
    context,
    log,
    database,
    redis,
    call,
    async newTenant() {
      // What a test does in a minute is its own affair.
      const settings = { rate_limits: { requests_per_minute: null } };
      const { json } = await call('POST', '/v1/tenants', { body: { name: `tenant ${randomUUID()}`, settings } });
      return json;
    },
    async close() {
      await api.close(1000);
      await platform.close();
      await Promise.all(proxies.map((proxy) => proxy.close()));
    },
  };
}

/** One request with what `Call` says, its answer read to the end. */
export async function request(
  url: string,
  method: string,
  { key, body, raw, headers = {}, redirect }: Call,
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: {
      ...(key === null || key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined && raw === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined && raw === undefined ? {} : { body: raw ?? JSON.stringify(body) }),
    ...(redirect === undefined ? {} : { redirect }),
  });
  const text = await response.text();
  const isJson = /json/.test(response.headers.get('content-type') ?? '');
  return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined };
}

/** Whatever a test asks, the answer must be one that `/openapi.json` promises. */
export function assertAsDescribed(routes: readonly Route[], asked: string, { status, json }: Answer): void {
  const [method = '', url = ''] = asked.split(' ');
  const path = url.replace(/\?.*/, '');
  const route = routes.find((each) => each.method.toUpperCase() === method && patternOf(each).test(path));
  if (!route || status >= 400) return;
  const promised = route.responses[status];
  assert.ok(promised !== undefined, `${asked} answered ${status}, which ${route.path} does not promise`);
  if (!(promised instanceof z.ZodType)) return;
  const { error } = promised.safeParse(json);
  assert.equal(error === undefined ? '' : z.prettifyError(error), '', `${asked} does not answer as it promises`);
}

function patternOf(route: Route): RegExp {
  return new RegExp(`^${route.path.replaceAll(/:\w+/g, '[^/]+')}$`);
}
