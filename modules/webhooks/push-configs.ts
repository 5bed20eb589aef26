/** Push configurations of A2A clients: webhooks for a single run, delivered like all webhooks. */
import { randomBytes } from 'node:crypto';
import type { Caller } from '../../core/caller.ts';
import { impossible, notFound } from '../../core/errors.ts';
import type { RunStatus } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Keyring, SecretOwner } from '../../core/secret-box.ts';
import type { Tx } from '../../db/database.ts';
import {
  countPushConfigs,
  deliverLastEvent,
  holdRunStatus,
  listPushConfigs,
  listPushTokensUnderOtherKeys,
  putPushConfig,
  resealPushToken,
  type PushConfigRow,
} from '../../db/push-configs.ts';
import { countWebhooks, deleteWebhook, type HeldWebhook } from '../../db/webhooks.ts';
import { newId } from '../../lib/new-id.ts';
import { recordAudit } from '../audit/record-audit.ts';
import type { SealedKind } from '../tenants/reencrypt-secrets.ts';
import { PUSH_EVENTS, type PushToken } from './channels/a2a-push.ts';

export type { PushConfigRow };

/** States that are sent at once to a client that subscribes late. */
const SETTLED: readonly RunStatus[] = ['completed', 'failed', 'cancelled', 'awaiting_human'];

interface Wanted {
  runId: string;
  /** The client's name for it; generated if absent. */
  pushId: string | undefined;
  url: string;
  carries: PushToken;
}

/**
 * Notifies a client of a run from now on, and at once of its state if it waits or has ended. An existing name is overwritten.
 * Throws 404 for an unknown run, 422 if there are too many.
 */
export async function createPushConfig(
  tx: Tx,
  { caller, keyring }: { caller: Caller; keyring: Keyring },
  { runId, pushId, url, carries }: Wanted,
): Promise<PushConfigRow> {
  const { tenantId, workspaceId } = caller;
  // Holds the tenant's count until the end of the transaction.
  await countWebhooks(tx, tenantId);
  const status = await holdRunStatus(tx, runId);
  if (!status) throw notFound('The task');
  const there = await listPushConfigs(tx, runId);
  const id = newId();
  const name = pushId ?? id;
  if (!there.some((config) => config.push_id === name)) {
    if (there.length >= LIMITS.pushConfigsPerTask)
      throw impossible(`A task has at most ${LIMITS.pushConfigsPerTask} push configurations.`);
    if ((await countPushConfigs(tx)) >= LIMITS.pushConfigsPerTenant)
      throw impossible(`A tenant has at most ${LIMITS.pushConfigsPerTenant} push configurations.`);
  }
  const sealed = keyring.seal(ownerOf(tenantId, { runId, name }), JSON.stringify(carries), randomBytes(12));
  const config = { id, tenantId, workspaceId, run_id: runId, push_id: name, url, events: PUSH_EVENTS, ...sealed };
  const row = await putPushConfig(tx, config);
  if (SETTLED.includes(status)) await deliverLastEvent(tx, { tenantId, webhookId: row.id, runId, types: PUSH_EVENTS });
  const details = { host: new URL(url).host, push_id: name };
  await recordAudit(tx, caller, { action: 'push_config.created', target: ['run', runId], details });
  return row;
}

/** A run's push configurations, oldest first. */
export async function readPushConfigs(tx: Tx, runId: string): Promise<PushConfigRow[]> {
  return listPushConfigs(tx, runId);
}

/** Stops notifying a client; an unknown name is no error. */
export async function removePushConfig(tx: Tx, caller: Caller, of: { runId: string; pushId: string }): Promise<void> {
  const row = (await listPushConfigs(tx, of.runId)).find(({ push_id }) => push_id === of.pushId);
  if (!row) return;
  await deleteWebhook(tx, row.id);
  const details = { push_id: of.pushId };
  await recordAudit(tx, caller, { action: 'push_config.deleted', target: ['run', of.runId], details });
}

/** The token that the configuration's messages carry; undefined for other webhooks. Throws `SecretUnreadableError`. */
export function openPushToken(
  keyring: Keyring,
  tenantId: string,
  { run_id: runId, push_id: name, token_key_id: keyId, token_sealed: sealed }: HeldWebhook,
): string | undefined {
  if (runId === null || name === null || keyId === null || sealed === null) return undefined;
  return keyring.open(ownerOf(tenantId, { runId, name }), { keyId, sealed });
}

/** Push tokens, for encryption under another key. */
export const PUSH_TOKENS: SealedKind = {
  async list(tx, page) {
    const rows = await listPushTokensUnderOtherKeys(tx, page);
    return rows.map(({ run_id: runId, push_id: name, ...row }) => ({ ...row, name: nameOf({ runId, name }) }));
  },
  reseal: resealPushToken,
};

function ownerOf(tenantId: string, of: { runId: string; name: string }): SecretOwner {
  return { tenantId, name: nameOf(of) };
}

/** A name that no secret of a tenant can have. */
const nameOf = ({ runId, name }: { runId: string; name: string }) => `push configuration ${runId} ${name}`;
