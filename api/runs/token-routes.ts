/** Tokens with which a front end sees and answers one run, without a key. */
import { z } from 'zod';
import { forbidden } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { hasScope } from '../../core/scopes.ts';
import { requireRun } from '../../modules/runs/read-runs.ts';
import { issueRunToken, TOKEN_SCOPES } from '../../modules/tenants/run-tokens.ts';
import type { Route } from '../kit/route.ts';
import { defineRunRoutes, runParams } from './run-access.ts';

const tokenBody = z.strictObject({
  ttl_seconds: z.int().min(1).max(LIMITS.runTokenSeconds),
  scopes: z
    .array(z.enum(TOKEN_SCOPES))
    .min(1)
    .max(TOKEN_SCOPES.length)
    .describe('`read`: this run, its turns, events and stream; `answer`: resume and signals, as far as the key may.'),
});

const issue = defineRunRoutes({
  method: 'post',
  path: '/tokens',
  access: 'runs:read',
  summary: 'Make a short-lived token for this run alone; `answer` needs the scope `runs:write`',
  params: runParams,
  body: tokenBody,
  responses: { 201: z.object({ token: z.string(), expires_at: z.iso.datetime() }) },
  async handle({ caller, params, body, context }) {
    const { ttl_seconds: ttlSeconds } = body;
    const scopes = [...new Set(body.scopes)];
    if (scopes.includes('answer') && !hasScope(caller.scopes, 'runs:write')) {
      throw forbidden('A token that answers needs a key with the scope runs:write.');
    }
    await context.db.withTenant(caller.tenantId, (tx) => requireRun(tx, caller, params));
    const { token, expiresAt } = await issueRunToken(context, caller, { runId: params.run, scopes, ttlSeconds });
    return { status: 201, body: { token, expires_at: expiresAt.toISOString() } };
  },
});

export const TOKEN_ROUTES: readonly Route[] = issue;
