/** Webhooks: whom to tell of events, and what was told. */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { notFound } from '../core/errors.ts';
import { EVENT_TYPES } from '../core/events.ts';
import { newId } from '../lib/new-id.ts';
import type { Tx } from '../db/database.ts';
import { deleteSecret } from '../db/secrets.ts';
import {
  deleteWebhook,
  findWebhook,
  insertWebhook,
  listDeliveries,
  listWebhooks,
  redeliver,
  updateWebhook,
  type DeliveryRow,
  type WebhookRow,
} from '../db/webhooks.ts';
import type { Caller } from '../core/caller.ts';
import { CHANNEL_PROTOCOLS } from '../modules/webhooks/channels.ts';
import { idempotently } from '../modules/tenants/idempotency.ts';
import { recordAudit } from '../modules/audit/record-audit.ts';
import { storeSecret } from '../modules/tenants/secrets.ts';
import { secretNameOf } from '../modules/webhooks/send-webhooks.ts';
import { pageFields, pageOf, pageQuery } from './kit/paging.ts';
import { defineRoute, type Route } from './kit/route.ts';
import { idParam } from './kit/validate.ts';

const WANTED: ReadonlySet<string> = new Set([
  '*',
  ...EVENT_TYPES,
  ...EVENT_TYPES.map((type) => type.split('.')[0] ?? ''),
]);

const protocol = new RegExp(`^(${CHANNEL_PROTOCOLS.join('|')})$`);
const message = `must be an ${CHANNEL_PROTOCOLS.join(' or ')} URL`;
const url = z.url({ protocol, message }).max(2000);
const events = z
  .array(
    z
      .string()
      .max(100)
      .transform((name) => name.replace(/\.\*$/, ''))
      .refine((name) => WANTED.has(name), 'is no type or family of events'),
  )
  .min(1)
  .max(100)
  .describe('Types (`approval.requested`), families (`approval`), or `*`.');
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
  created_at: when,
  updated_at: when,
};
const webhook = z.strictObject(fields).meta({ id: 'Webhook' });

const delivery = z
  .strictObject({
    id: z.uuid().describe('The header `webhook-id`, the same in each attempt.'),
    webhook_id: z.uuid(),
    run_id: z.uuid(),
    seq: z.int(),
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
    const secret = `whsec_${randomBytes(32).toString('base64')}`;
    return idempotently(context, idempotency, async (tx) => {
      const { tenantId, boundWorkspaceId: workspaceId } = caller;
      const row = await insertWebhook(tx, { id: newId(), tenantId, workspaceId, ...body });
      await storeSecret(tx, context.keyring, { tenantId, name: secretNameOf(row.id), value: secret });
      await audit(tx, caller, { action: 'webhook.created', row });
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
    const page = { before, limit: limit + 1, workspaceId: caller.boundWorkspaceId };
    const rows = await context.db.withTenant(caller.tenantId, (tx) => listWebhooks(tx, page));
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
    const row = await context.db.withTenant(caller.tenantId, async (tx) => {
      await requireWebhook(tx, caller, params.id);
      const changed = await updateWebhook(tx, params.id, body);
      if (changed) await audit(tx, caller, { action: 'webhook.updated', row: changed });
      return changed;
    });
    if (!row) throw notFound('This webhook');
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
    await context.db.withTenant(caller.tenantId, async (tx) => {
      const row = await requireWebhook(tx, caller, params.id);
      await deleteWebhook(tx, params.id);
      await deleteSecret(tx, secretNameOf(params.id));
      await audit(tx, caller, { action: 'webhook.deleted', row });
    });
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
    const rows = await context.db.withTenant(caller.tenantId, async (tx) => {
      await requireWebhook(tx, caller, params.id);
      return listDeliveries(tx, { webhookId: params.id, status: wanted, before, limit: limit + 1 });
    });
    const { items, ...page } = pageOf(rows, limit, (row) => row.id);
    return { status: 200, body: { deliveries: items.map(presentDelivery), ...page } };
  },
});

const again = defineRoute({
  method: 'post',
  path: '/v1/webhooks/:id/deliveries/:delivery/redeliver',
  access: 'admin',
  summary: 'Deliver once more, with the same webhook-id',
  params: z.strictObject({ id: idParam, delivery: idParam }),
  body: z.strictObject({}),
  responses: { 202: delivery },
  async handle({ caller, params, context }) {
    const row = await context.db.withTenant(caller.tenantId, async (tx) => {
      await requireWebhook(tx, caller, params.id);
      return redeliver(tx, { webhookId: params.id, id: params.delivery });
    });
    if (!row) throw notFound('This delivery');
    return { status: 202, body: presentDelivery(row) };
  },
});

export const WEBHOOK_ROUTES: readonly Route[] = [create, list, get, change, remove, deliveries, again];

async function requireWebhook(tx: Tx, caller: Caller, id: string): Promise<WebhookRow> {
  const row = await findWebhook(tx, id, caller.boundWorkspaceId);
  if (!row) throw notFound('This webhook');
  return row;
}

function audit(
  tx: Tx,
  caller: Caller,
  { action, row }: { action: 'webhook.created' | 'webhook.updated' | 'webhook.deleted'; row: WebhookRow },
): Promise<void> {
  // A path or a query may hold a credential.
  const details = { host: new URL(row.url).host, events: row.events, status: row.status };
  return recordAudit(tx, caller, { action, target: ['webhook', row.id], details });
}

function presentWebhook(row: WebhookRow): z.input<typeof webhook> {
  const { created_at, updated_at, ...rest } = row;
  const times = { created_at: created_at.toISOString(), updated_at: updated_at.toISOString() };
  return { ...rest, webhook_id: row.id, ...times };
}

function presentDelivery(row: DeliveryRow): z.input<typeof delivery> {
  return {
    ...row,
    next_at: row.status === 'pending' ? row.next_at.toISOString() : null,
    delivered_at: row.delivered_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
  };
}
