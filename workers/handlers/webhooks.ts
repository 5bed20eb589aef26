import { WEBHOOKS } from '../../jobs/webhooks.ts';
import { sendWebhook } from '../../modules/webhooks/send-webhook.ts';
import { defineHandler } from '../handler.ts';

/** Delivers what is due to the webhook. */
export const handler = defineHandler(WEBHOOKS, (context, payload, held) => sendWebhook(context, payload, held.stop));
