/** A tenant's webhooks: created, changed and deleted by its admin; and their deliveries. */
import { randomBytes } from 'node:crypto';
import type { Caller } from '../../core/caller.ts';
import { impossible, notFound } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { newId } from '../../lib/new-id.ts';
import type { Keyring } from '../../core/secret-box.ts';
import type { Tx } from '../../db/database.ts';
import { deleteSecret } from '../../db/secrets.ts';
import { listDeliveries, redeliver, type DeliveryRow } from '../../db/webhook-deliveries.ts';
import {
  countWebhooks,
  deleteWebhook,
  findWebhook,
  insertWebhook,
  listWebhooks,
  updateWebhook,
  type WebhookRow,
} from '../../db/webhooks.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { storeSecret } from '../tenants/secrets.ts';
import { secretNameOf } from './send-webhook.ts';

export type { DeliveryRow, WebhookRow };

type Wanted = Omit<Parameters<typeof insertWebhook>[1], 'id' | 'tenantId' | 'workspaceId'>;
type Page = { before?: string | undefined; limit: number };

/** Creates a webhook and its signing secret, which is shown only now. Throws 422 if the tenant has the maximum. */
export async function createWebhook(
  tx: Tx,
  by: { caller: Caller; keyring: Keyring },
  wanted: Wanted,
): Promise<{ row: WebhookRow; secret: string }> {
  const { caller, keyring } = by;
  const { tenantId, boundWorkspaceId: workspaceId } = caller;
  if ((await countWebhooks(tx, tenantId)) >= LIMITS.webhooksPerTenant) {
    throw impossible(`A tenant has at most ${LIMITS.webhooksPerTenant} webhooks.`);
  }
  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  const row = await insertWebhook(tx, { id: newId(), tenantId, workspaceId, ...wanted });
  await storeSecret(tx, keyring, { tenantId, name: secretNameOf(row.id), value: secret });
  await audit(tx, caller, { action: 'webhook.created', row });
  return { row, secret };
}

/** A webhook; if the caller is bound to a workspace, of that one. Throws 404. */
export async function requireWebhook(tx: Tx, caller: Caller, id: string): Promise<WebhookRow> {
  const row = await findWebhook(tx, id, caller.boundWorkspaceId);
  if (!row) throw notFound('This webhook');
  return row;
}

/** A page of webhooks, newest first. */
export async function readWebhooks(tx: Tx, caller: Caller, page: Page): Promise<WebhookRow[]> {
  return listWebhooks(tx, { ...page, workspaceId: caller.boundWorkspaceId });
}

/** Changes, disables or re-enables a webhook. Throws 404. */
export async function changeWebhook(
  tx: Tx,
  caller: Caller,
  change: { id: string; patch: Parameters<typeof updateWebhook>[2] },
): Promise<WebhookRow> {
  await requireWebhook(tx, caller, change.id);
  const row = await updateWebhook(tx, change.id, change.patch);
  if (!row) throw notFound('This webhook');
  await audit(tx, caller, { action: 'webhook.updated', row });
  return row;
}

/** Deletes a webhook with its secret and its deliveries. Throws 404. */
export async function removeWebhook(tx: Tx, caller: Caller, id: string): Promise<void> {
  const row = await requireWebhook(tx, caller, id);
  await deleteWebhook(tx, id);
  await deleteSecret(tx, secretNameOf(id));
  await audit(tx, caller, { action: 'webhook.deleted', row });
}

/** A page of a webhook's deliveries, newest first. Throws 404 if there is no such webhook. */
export async function readDeliveries(
  tx: Tx,
  caller: Caller,
  page: Parameters<typeof listDeliveries>[1],
): Promise<DeliveryRow[]> {
  await requireWebhook(tx, caller, page.webhookId);
  return listDeliveries(tx, page);
}

/** Repeats a delivery, with the same webhook-id. Throws 404. */
export async function deliverAgain(
  tx: Tx,
  caller: Caller,
  delivery: { webhookId: string; id: string },
): Promise<DeliveryRow> {
  await requireWebhook(tx, caller, delivery.webhookId);
  const row = await redeliver(tx, delivery);
  if (!row) throw notFound('This delivery');
  return row;
}

function audit(
  tx: Tx,
  caller: Caller,
  { action, row }: { action: 'webhook.created' | 'webhook.updated' | 'webhook.deleted'; row: WebhookRow },
): Promise<void> {
  // Only the host: a path or query may hold a credential.
  const details = { host: new URL(row.url).host, events: row.events, status: row.status };
  return recordAudit(tx, caller, { action, target: ['webhook', row.id], details });
}
