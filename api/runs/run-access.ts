/** Run paths have two forms, `/v1/runs/{run}/…` and `/v1/agents/{id}/runs/{run}/…`, with the same handlers. */
import { z } from 'zod';
import { agentIdParam } from '../kit/external-ids.ts';
import { defineRoute, type Access, type Route, type RouteSpec } from '../kit/route.ts';
import { idParam } from '../kit/validate.ts';

export const runParams = z.strictObject({ id: agentIdParam.optional(), run: idParam });

type Schema = z.ZodType | undefined;

/** Defines a route under both; `path` is the part after the run. */
export function defineRunRoutes<
  A extends Access,
  P extends z.ZodType<{ run: string; id?: string | undefined }>,
  Q extends Schema = undefined,
  B extends Schema = undefined,
>(spec: RouteSpec<P, Q, B, A>): Route[] {
  return [`/v1/runs/:run${spec.path}`, `/v1/agents/:id/runs/:run${spec.path}`].map((path) =>
    defineRoute<A, P, Q, B>({ ...spec, path }),
  );
}
