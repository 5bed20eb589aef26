/** The endpoint where other systems call back a waiting run. */
import { z } from 'zod';
import { receiveWebhook, requireWebhook } from '../modules/waits/receive-webhook.ts';
import { defineRoute, type Route } from './kit/route.ts';

const accepted = z.object({ status: z.literal('accepted') });

const receive = defineRoute({
  method: 'post',
  path: '/v1/hooks/:token',
  access: 'open',
  summary: 'Call a run that waits for a webhook; the address itself is the permission, and the body the payload',
  params: z.strictObject({ token: z.string().regex(/^[\w-]{43}$/) }),
  body: z.unknown(),
  keepsDigits: true,
  responses: { 200: accepted, 202: accepted },
  admit: ({ context, params }) => requireWebhook(context, params.token),
  async handle({ params, body, context, ctx }) {
    const { isNew } = await receiveWebhook(context, params.token, { payload: body, replaced: ctx.state.replaced });
    return { status: isNew ? 202 : 200, body: { status: 'accepted' as const } };
  },
});

export const HOOK_ROUTES: readonly Route[] = [receive];
