/** Webhooks: subscriptions to events, and their deliveries. */
import { z } from 'zod';
import { EVENT_NAMES, toldOfUnknownName, withoutWords, withWords } from '../core/event-families.ts';
import { idempotently } from '../modules/tenants/idempotency.ts';
import { CHANNEL_PROTOCOLS } from '../modules/webhooks/channels.ts';
import {
  changeWebhook,
  createWebhook,
  deliverAgain,
  readDeliveries,
  readWebhooks,
  removeWebhook,
  requireWebhook,
  type DeliveryRow,
  type WebhookRow,
} from '../modules/webhooks/write-webhooks.ts';
import { hasLogin } from '../lib/has-login.ts';
import { pageFields, pageOf, pageQuery } from './kit/paging.ts';
import { defineRoute, type Route } from './kit/route.ts';
import { idParam } from './kit/validate.ts';

const protocol = new RegExp(`^(${CHANNEL_PROTOCOLS.join('|')})$`);
const message = `must be an ${CHANNEL_PROTOCOLS.join(' or ')} URL`;
const url = z
  .url({ protocol, message })
  .max(2000)
  .refine(
    (given) => !hasLogin(given),
    'has a user name or a password: deliveries are signed instead (docs/webhooks.md)',
  );
const events = z
  .array(
    z
      .string()
      .max(100)
      .transform((name) => name.replace(/\.\*$/, ''))
      .refine((name) => EVENT_NAMES.has(name), { error: ({ input }) => toldOfUnknownName(String(input)) }),
  )
  .min(1)
  .max(100)
  .transform(withWords)
  .describe('Types (`approval.requested`), families (`wait`), their parts (`approval`), or `*`.');
const description = z.string().max(1000).optional();
const status = z.enum(['active', 'disabled']);
const when = z.iso.datetime();

const fields = {
  id: z.uuid(),
  webhook_id: z.uuid(),
  workspace_id: z.uuid().nullable(),
  url: z.string(),
  events: z.array(z.string()),
  description: z.string().nullable(),
  status,
  disabled_reason: z.string().nullable(),
  failures: z.int().describe('Rounds of deliveries in a row of which nothing has arrived.'),
  next_at: when.nullable().describe('Until then it is left alone for that.'),
  created_at: when,
  updated_at: when,
};
const webhook = z.strictObject(fields).meta({ id: 'Webhook' });

const delivery = z
  .strictObject({
    id: z.uuid().describe('The header `webhook-id`, the same in each attempt.'),
    webhook_id: z.uuid(),
    run_id: z.uuid().nullable().describe('Null for what stands in no log.'),
    seq: z.int().nullable(),
    type: z.string(),
    status: z.enum(['pending', 'delivered', 'failed']),
    attempts: z.int(),
    next_at: when.nullable(),
    response_status: z.int().nullable(),
    error: z.string().nullable(),
    delivered_at: when.nullable(),
    created_at: when,
  })
  .meta({ id: 'WebhookDelivery' });

const idOnly = z.strictObject({ id: idParam });

const create = defineRoute({
  method: 'post',
  path: '/v1/webhooks',
  access: 'admin',
  summary: 'Be told of events; the signing secret is shown this once',
  idempotent: true,
  body: z.strictObject({ url, events, description }),
  responses: { 201: z.strictObject({ ...fields, secret: z.string().optional() }) },
  async handle({ caller, body, context, idempotency }) {
    return idempotently(context, idempotency, async (tx) => {
      const { row, secret } = await createWebhook(tx, { caller, keyring: context.keyring }, body);
      const shown = presentWebhook(row);
      return { status: 201, body: { ...shown, secret }, store: shown };
    });
  },
});

const list = defineRoute({
  method: 'get',
  path: '/v1/webhooks',
  access: 'admin',
  summary: 'List webhooks, newest first',
  query: pageQuery(),
  responses: { 200: pageFields('webhooks', webhook) },
  async handle({ caller, query, context }) {
    const { limit, cursor: before } = query;
    const rows = await context.db.withTenant(caller.tenantId, (tx) =>
      readWebhooks(tx, caller, { before, limit: limit + 1 }),
    );
    const { items, ...rest } = pageOf(rows, limit, (row) => row.id);
    return { status: 200, body: { webhooks: items.map(presentWebhook), ...rest } };
  },
});

const get = defineRoute({
  method: 'get',
  path: '/v1/webhooks/:id',
  access: 'admin',
  summary: 'Get a webhook',
  params: idOnly,
  responses: { 200: webhook },
  async handle({ caller, params, context }) {
    const row = await context.db.withTenant(caller.tenantId, (tx) => requireWebhook(tx, caller, params.id));
    return { status: 200, body: presentWebhook(row) };
  },
});

const change = defineRoute({
  method: 'patch',
  path: '/v1/webhooks/:id',
  access: 'admin',
  summary: 'Change a webhook, disable it, or make it active again',
  params: idOnly,
  body: z.strictObject({ url: url.optional(), events: events.optional(), description, status: status.optional() }),
  responses: { 200: webhook },
  async handle({ caller, params, body, context }) {
    const row = await context.db.withTenant(caller.tenantId, (tx) =>
      changeWebhook(tx, caller, { id: params.id, patch: body }),
    );
    return { status: 200, body: presentWebhook(row) };
  },
});

const remove = defineRoute({
  method: 'delete',
  path: '/v1/webhooks/:id',
  access: 'admin',
  summary: 'Delete a webhook with its deliveries',
  params: idOnly,
  responses: { 204: 'empty' },
  async handle({ caller, params, context }) {
    await context.db.withTenant(caller.tenantId, (tx) => removeWebhook(tx, caller, params.id));
    return { status: 204 };
  },
});

const deliveries = defineRoute({
  method: 'get',
  path: '/v1/webhooks/:id/deliveries',
  access: 'admin',
  summary: 'List deliveries, newest first',
  params: idOnly,
  query: pageQuery().extend({ status: delivery.shape.status.optional() }),
  responses: { 200: pageFields('deliveries', delivery) },
  async handle({ caller, params, query, context }) {
    const { limit, cursor: before, status: wanted } = query;
    const rows = await context.db.withTenant(caller.tenantId, (tx) =>
      readDeliveries(tx, caller, { webhookId: params.id, status: wanted, before, limit: limit + 1 }),
    );
    const { items, ...page } = pageOf(rows, limit, (row) => row.id);
    return { status: 200, body: { deliveries: items.map(presentDelivery), ...page } };
  },
});

const again = defineRoute({
  method: 'post',
  path: '/v1/webhooks/:id/deliveries/:delivery/redeliver',
  access: 'admin',
  summary: 'Deliver once more, with the same webhook-id',
  idempotent: true,
  params: z.strictObject({ id: idParam, delivery: idParam }),
  body: z.strictObject({}),
  responses: { 202: delivery },
  handle: ({ caller, params, context, idempotency }) =>
    idempotently(context, idempotency, async (tx) => {
      const row = await deliverAgain(tx, caller, { webhookId: params.id, id: params.delivery });
      return { status: 202, body: presentDelivery(row) };
    }),
});

export const WEBHOOK_ROUTES: readonly Route[] = [create, list, get, change, remove, deliveries, again];

function presentWebhook(row: WebhookRow): z.input<typeof webhook> {
  const { created_at, updated_at, next_at, ...rest } = row;
  const times = {
    next_at: next_at?.toISOString() ?? null,
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  };
  return { ...rest, events: withoutWords(row.events), webhook_id: row.id, ...times };
}

function presentDelivery(row: DeliveryRow): z.input<typeof delivery> {
  return {
    ...row,
    next_at: row.status === 'pending' ? row.next_at.toISOString() : null,
    delivered_at: row.delivered_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
  };
}
