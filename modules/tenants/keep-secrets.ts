/** Stores, lists and deletes a tenant's secrets for the API; their values are never returned. */
import type { Caller } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import type { Tx } from '../../db/database.ts';
import { deleteSecret, findSecret, listSecrets as readSecretNames, type SecretRow } from '../../db/secrets.ts';
import { recordAudit } from '../audit/record-audit.ts';
import type { ProcessContext } from '../process-context.ts';
import { storeSecret } from './secrets.ts';

export { readSecretNames };
export type { SecretRow };

/** Stores a secret, replacing one of its name. Absent hosts stay unchanged; null removes them. */
export async function keepSecret(
  { db, keyring }: Pick<ProcessContext, 'db' | 'keyring'>,
  caller: Caller,
  secret: { name: string; value: string; hosts?: readonly string[] | null | undefined },
): Promise<SecretRow & { created: boolean }> {
  const { tenantId } = caller;
  return db.withTenant(tenantId, async (tx) => {
    const row = await storeSecret(tx, keyring, { tenantId, ...secret });
    const details = row.hosts ? { hosts: row.hosts } : {};
    await recordAudit(tx, caller, { action: 'secret.stored', target: ['secret', secret.name], details });
    return row;
  });
}

/** A secret without its value. Throws 404. */
export async function requireSecret(tx: Tx, name: string): Promise<SecretRow> {
  const row = await findSecret(tx, name);
  if (!row) throw notFound('This secret');
  return row;
}

/** Deletes a secret. Throws 404. */
export async function forgetSecret(tx: Tx, caller: Caller, name: string): Promise<void> {
  if (!(await deleteSecret(tx, name))) throw notFound('This secret');
  await recordAudit(tx, caller, { action: 'secret.deleted', target: ['secret', name] });
}
