/** Tokens with which a front end reads and answers one run, or takes part in one thread, without a key. */
import { z } from 'zod';
import { forbidden } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { hasScope } from '../../core/scopes.ts';
import { readRunRef } from '../../modules/runs/read-runs.ts';
import { idempotently, type IdempotentRequest } from '../../modules/tenants/idempotency.ts';
import { issueToken, TOKEN_SCOPES, type TokenTarget } from '../../modules/tenants/tokens.ts';
import type { Caller } from '../../core/caller.ts';
import type { Context } from '../../modules/governance/context.ts';
import { nameThread } from '../../modules/sessions/converse.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { defineRunRoutes, runParams } from './run-access.ts';

const tokenBody = z.strictObject({
  ttl_seconds: z.int().min(1).max(LIMITS.runTokenSeconds),
  scopes: z
    .array(z.enum(TOKEN_SCOPES))
    .min(1)
    .max(TOKEN_SCOPES.length)
    .describe(
      '`read`: the run or thread, its turns, events and streams; `answer`: what is asked, and messages on a thread, as far as the key may.',
    ),
});

const given = z.object({
  token: z.string().optional().describe('Missing where the answer is a repeated one.'),
  expires_at: z.iso.datetime(),
});

const ofRun = defineRunRoutes({
  method: 'post',
  path: '/tokens',
  access: 'runs:read',
  summary: 'Make a short-lived token for this run alone; `answer` needs the scope `runs:write`',
  idempotent: true,
  params: runParams,
  body: tokenBody,
  responses: { 201: given },
  async handle(request) {
    const { caller, params, body, context, idempotency } = request;
    mustBeAbleTo(caller, body);
    await readRunRef(context, caller, params);
    // Both paths mean the same request.
    const route = `POST /v1/runs/${params.run}/tokens`;
    return issue({ ...request, idempotency: { ...idempotency, route } }, { kind: 'run', id: params.run });
  },
});

const ofThread = defineRoute({
  method: 'post',
  path: '/v1/threads/:thread/tokens',
  access: 'runs:read',
  summary: 'Make a short-lived token for this thread alone; `answer` needs the scope `runs:write`',
  params: z.strictObject({
    thread: z.string().min(1).max(200).describe("A thread's id, or a name of the client's own for one, begun or not."),
  }),
  idempotent: true,
  body: tokenBody,
  responses: { 201: given },
  async handle(request) {
    const { caller, params, body, context, idempotency } = request;
    mustBeAbleTo(caller, body);
    const id = await nameThread(context, caller, params.thread);
    // The same under any name of the thread.
    const route = `POST /v1/threads/${id}/tokens`;
    return issue({ ...request, idempotency: { ...idempotency, route } }, { kind: 'thread', id });
  },
});

type Asked = z.output<typeof tokenBody>;

function mustBeAbleTo({ scopes }: Caller, asked: Asked): void {
  if (!asked.scopes.includes('answer') || hasScope(scopes, 'runs:write')) return;
  throw forbidden('A token that answers needs a key with the scope runs:write.');
}

interface TokenRequest {
  caller: Caller;
  body: Asked;
  context: Context;
  idempotency: IdempotentRequest;
}

function issue({ caller, body, context, idempotency }: TokenRequest, target: TokenTarget) {
  const { keyring } = context;
  const asked = { target, scopes: [...new Set(body.scopes)], ttlSeconds: body.ttl_seconds };
  return idempotently<z.input<typeof given>>(context, idempotency, async (tx) => {
    const { token, expiresAt } = await issueToken({ tx, keyring }, caller, asked);
    const shown = { expires_at: expiresAt.toISOString() };
    return { status: 201, body: { token, ...shown }, store: shown };
  });
}

export const TOKEN_ROUTES: readonly Route[] = [...ofRun, ofThread];
