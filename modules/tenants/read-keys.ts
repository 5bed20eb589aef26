/** Lists, changes and revokes API keys for the API. */
import type { Caller } from '../../core/caller.ts';
import { conflict, notFound } from '../../core/errors.ts';
import {
  changeApiKey,
  findApiKey,
  listApiKeys,
  revokeApiKey,
  type ApiKeyChange,
  type ApiKeyRow,
} from '../../db/api-keys.ts';
import type { Tx } from '../../db/database.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { expiresInThePast } from './create-api-key.ts';

export type { ApiKeyRow };

/** A page of keys, newest first; only of the caller's workspace if the caller is bound to it. */
export async function readApiKeys(
  tx: Tx,
  caller: Caller,
  page: { before?: string | undefined; limit: number },
): Promise<ApiKeyRow[]> {
  return listApiKeys(tx, { ...page, workspaceId: caller.boundWorkspaceId });
}

/** A key; only of the caller's workspace if the caller is bound to it. Throws 404. */
export async function requireApiKey(tx: Tx, caller: Caller, id: string): Promise<ApiKeyRow> {
  const row = await findApiKey(tx, id, caller.boundWorkspaceId);
  if (!row) throw notFound('This key');
  return row;
}

/** Changes a key's name or expiry. Throws 404, 409 for a revoked key, 422 for an expiry in the past. */
export async function updateApiKey(
  tx: Tx,
  caller: Caller,
  { id, ...change }: ApiKeyChange & { id: string },
): Promise<ApiKeyRow> {
  const { revoked_at } = await requireApiKey(tx, caller, id);
  if (revoked_at) throw conflict('The key is revoked.');
  if (!(await changeApiKey(tx, id, change))) throw expiresInThePast();
  const details = { name: change.name, expires_at: change.expiresAt };
  await recordAudit(tx, caller, { action: 'api_key.updated', target: ['api_key', id], details });
  return requireApiKey(tx, caller, id);
}

/** Revokes a key; repeating changes nothing. Throws 404. */
export async function endApiKey(tx: Tx, caller: Caller, id: string): Promise<void> {
  const found = await revokeApiKey(tx, id, caller.boundWorkspaceId);
  if (!found) throw notFound('This key');
  if (found.isNew) await recordAudit(tx, caller, { action: 'api_key.revoked', target: ['api_key', id] });
}
