/** Endpoints for the operator's machines: liveness, readiness, metrics, and the API's description. */
import { z } from 'zod';
import { readinessOf } from '../modules/platform/readiness-of.ts';
import { scrapeMetrics } from '../modules/platform/scrape-metrics.ts';
import { defineRoute } from './kit/route.ts';
import type { Route } from './kit/route.ts';

const alive = defineRoute({
  method: 'get',
  path: '/healthz',
  access: 'open',
  summary: 'Whether the process is alive',
  responses: { 200: z.strictObject({ status: z.literal('ok') }) },
  handle: () => Promise.resolve({ status: 200, body: { status: 'ok' } }),
});

const checks = z.strictObject({ database: z.string(), queue: z.string(), migrations: z.string() });

const ready = defineRoute({
  method: 'get',
  path: '/readyz',
  access: 'open',
  summary: 'Whether database, queue and migrations are usable; 503 says which is not',
  responses: { 200: z.strictObject({ status: z.literal('ready'), checks }) },
  async handle({ context, app }) {
    return { status: 200, body: await readinessOf(context, app.closing.aborted) };
  },
});

const metrics = defineRoute({
  method: 'get',
  path: '/metrics',
  access: 'loopback-operator',
  summary: "Numbers in Prometheus's text format",
  responses: { 200: { contentType: 'text/plain', description: 'Prometheus exposition format' } },
  async handle({ context }) {
    const { contentType, text } = await scrapeMetrics(context);
    return { status: 200, body: text, headers: { 'content-type': contentType } };
  },
});

const openapi = defineRoute({
  method: 'get',
  path: '/openapi.json',
  access: 'loopback',
  summary: 'This description',
  responses: { 200: z.looseObject({ openapi: z.string() }) },
  handle: ({ app }) =>
    Promise.resolve({
      status: 200,
      body: app.description(),
      headers: { 'content-type': 'application/json; charset=utf-8' },
    }),
});

export const SYSTEM_ROUTES: readonly Route[] = [alive, ready, metrics, openapi];
