import { forbidden, impossible } from '../../core/errors.ts';
import { sha256 } from '../../core/ids.ts';
import { newId, newSecret } from '../../lib/new-id.ts';
import type { Scope } from '../../core/scopes.ts';
import { insertApiKey } from '../../db/api-keys.ts';
import type { ApiKeyRow } from '../../db/api-keys.ts';
import type { Tx } from '../../db/database.ts';
import { hasWorkspace } from '../../db/tenants.ts';
import type { Caller } from '../../core/caller.ts';
import { recordAudit, type AuditedBy } from '../audit/record-audit.ts';

/** A key: 256 random bits behind a prefix that people and secret scanners recognize. */
export function newApiKey(): string {
  return `drv_${newSecret()}`;
}

export interface ApiKeyRequest {
  name: string;
  scopes: readonly Scope[];
  workspace_id?: string | undefined;
  /** RFC 3339. */
  expires_at?: string | undefined;
}

/** Makes a key of the caller's tenant. A key bound to a workspace can only make keys bound to the same one. */
export async function createApiKey(
  tx: Tx,
  caller: AuditedBy & Partial<Pick<Caller, 'boundWorkspaceId'>>,
  request: ApiKeyRequest,
): Promise<{ row: ApiKeyRow; key: string }> {
  const workspaceId = request.workspace_id ?? caller.boundWorkspaceId;
  if (caller.boundWorkspaceId !== undefined && workspaceId !== caller.boundWorkspaceId) {
    throw forbidden('This key is bound to its workspace and cannot make keys for another.');
  }
  if (workspaceId !== undefined && !(await hasWorkspace(tx, workspaceId))) {
    throw impossible('There is no such workspace.', [{ path: 'body.workspace_id', message: 'is not a workspace' }]);
  }
  const key = newApiKey();
  const row = await insertApiKey(tx, {
    id: newId(),
    tenantId: caller.tenantId,
    name: request.name,
    hash: sha256(key),
    scopes: request.scopes,
    workspaceId,
    expiresAt: request.expires_at,
  });
  if (!row) throw expiresInThePast();
  const { name, scopes } = request;
  await recordAudit(tx, caller, { action: 'api_key.created', target: ['api_key', row.id], details: { name, scopes } });
  return { row, key };
}

/** The 422 for `expires_at`. */
export function expiresInThePast(): Error {
  const errors = [{ path: 'body.expires_at', message: 'must be in the future' }];
  return impossible('A key cannot expire in the past.', errors);
}
