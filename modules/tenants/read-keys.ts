/** API keys as the API shows them, and their end. */
import type { Caller } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import { listApiKeys, revokeApiKey, type ApiKeyRow } from '../../db/api-keys.ts';
import type { Tx } from '../../db/database.ts';
import { recordAudit } from '../audit/record-audit.ts';

export type { ApiKeyRow };

/** A page of keys, newest first; of the caller's workspace where the caller is bound to it. */
export async function readApiKeys(
  tx: Tx,
  caller: Caller,
  page: { before?: string | undefined; limit: number },
): Promise<ApiKeyRow[]> {
  return listApiKeys(tx, { ...page, workspaceId: caller.boundWorkspaceId });
}

/** Ends a key; once more is the same. Throws 404. */
export async function endApiKey(tx: Tx, caller: Caller, id: string): Promise<void> {
  const found = await revokeApiKey(tx, id, caller.boundWorkspaceId);
  if (!found) throw notFound('This key');
  if (found.isNew) await recordAudit(tx, caller, { action: 'api_key.revoked', target: ['api_key', id] });
}
